"""Networks that are trained for a detector."""
