"""Detectors as functions of images, and pictures of what fools them."""
