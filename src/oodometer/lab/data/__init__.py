"""Data sets: reading, finding, dividing, mislabelling and diagnosing them."""
