"""The report: one HTML file with the verdict, the pictures and the tables of a trace, which opens offline."""

from warpsight.ui.render.report.build import ReportOptions, render

__all__ = ["ReportOptions", "render"]
