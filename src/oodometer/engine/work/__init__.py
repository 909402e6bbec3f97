"""What a worker does: train, ask, score, and encode the results."""
