"""Classifiers that learn from auxiliary outliers, one file each, and what they share."""
