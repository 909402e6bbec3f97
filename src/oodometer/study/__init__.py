"""A study: what is trained, varied and analyzed. One YAML file whose keys are fields."""

from oodometer.study.fields import GENERATED, Factor, Level, Scale, Searches, TrainSpec
from oodometer.study.files import (
    load_study,
    parse_study,
    text_without_folders,
    to_yaml,
    without_folders,
)
from oodometer.study.study import Study

__all__ = [
    "GENERATED",
    "Factor",
    "Level",
    "Scale",
    "Searches",
    "Study",
    "TrainSpec",
    "load_study",
    "parse_study",
    "text_without_folders",
    "to_yaml",
    "without_folders",
]
