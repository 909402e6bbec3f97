"""Pages with prose and tables: which tables there are, and which are read."""
