"""Which detector is best, how certain is that, and does the answer survive retraining?"""
