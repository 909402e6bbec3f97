"""Whether an outlier set is fair: shared images, shared classes, shortcuts."""
