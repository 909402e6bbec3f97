"""What each column of a table is, by its title, its content, or a question."""
