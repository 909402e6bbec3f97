"""Figures: a Series becomes SVG; one module per kind."""
