"""Anybody's results table: CSV, workbooks, Markdown, LaTeX, Parquet or JSON in, Results out."""

from oodometer.tables.reading import Reading, read_results

__all__ = ["Reading", "read_results"]
