"""What a study has to do, as data: keys and records of plans."""
