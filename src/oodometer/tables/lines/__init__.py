"""From columns with roles to one line per number, and which lines count."""
