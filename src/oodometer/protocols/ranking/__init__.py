"""Which detector is best, how surely, and does the answer survive retraining?"""
