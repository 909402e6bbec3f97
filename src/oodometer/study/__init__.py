"""A study: what is trained, what is varied, and what is asked. One YAML file, keys = fields."""

from oodometer.study.fields import Factor, Level, Scale, TrainSpec
from oodometer.study.files import load_study, parse_study
from oodometer.study.study import Study

__all__ = ["Factor", "Level", "Scale", "Study", "TrainSpec", "load_study", "parse_study"]
