"""Anybody's results table: CSV, workbooks, Markdown, LaTeX, Parquet or JSON in, Results out."""

from oodometer.tables.described import described
from oodometer.tables.reading import Reading, read_results

__all__ = ["Reading", "described", "read_results"]
