"""Stores as web pages: an index of their results, pages of it, live or as files."""
