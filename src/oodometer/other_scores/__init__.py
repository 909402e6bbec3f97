"""Scores that others computed: from files of several forms to a ScoreTable."""

from oodometer.other_scores.reading import read_scores

__all__ = ["read_scores"]
