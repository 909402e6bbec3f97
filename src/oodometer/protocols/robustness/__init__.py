"""Which detector varies least over optimizers, and how certain is that?"""
