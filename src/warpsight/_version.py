"""The version, defined once and read by the build too."""

__version__ = "0.1.0"
