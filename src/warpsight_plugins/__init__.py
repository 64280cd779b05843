"""Formats and backends beyond the core, found by entry point like any third party's."""
