"""Search for outliers that fool detectors, and compare what is left of them."""

from oodometer.attacks.run import Attack, attack, attack_scores

__all__ = ["Attack", "attack", "attack_scores"]
