"""Does a detector find outliers of a kind that nobody tuned it on? Three data sets, not two."""
