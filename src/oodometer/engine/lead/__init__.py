"""Leading a study to its end: scheduling, running, collecting."""
