"""Training: networks, optimizers, schedules, augmentation and the loop itself."""
