"""From the rows of a file to one table with a title for each column."""
