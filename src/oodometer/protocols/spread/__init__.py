"""How far do trainings of one classifier differ: what a choice between them is worth."""
