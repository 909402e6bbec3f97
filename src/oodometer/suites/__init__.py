"""Suites: studies whose evaluation sets are fixed by digest, and submissions to them."""
