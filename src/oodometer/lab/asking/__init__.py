"""Asking a classifier: forward passes, its head, its layers and probes."""
