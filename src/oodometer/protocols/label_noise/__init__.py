"""What do noisy training labels do to detectors, and to conclusions about them?"""
