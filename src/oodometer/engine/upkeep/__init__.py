"""Looking after a store: survey, repair, verify, find."""
