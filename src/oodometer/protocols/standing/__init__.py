"""Who is best in a results table, how surely, and what changes the answer."""
