"""Classifiers and encoders whose features tell outliers apart, one file each."""
