"""Oodometer: a meter for out-of-distribution detectors.

Nothing heavy is imported until it is used: ``import oodometer`` is quick, and so is ``--help``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oodometer import metrics, stats
    from oodometer.analysis import analyze
    from oodometer.attacks import Attack, attack, attack_scores
    from oodometer.comparison import Evaluation, compare
    from oodometer.diagnosis import diagnose
    from oodometer.errors import UserError
    from oodometer.evaluation import evaluate, evaluate_outputs
    from oodometer.finding import Finding
    from oodometer.fitted import (
        Certificate,
        FittedDetector,
        FittedGenerator,
        certify,
        fit_detector,
        fit_generator,
        load_detector,
        load_generator,
    )
    from oodometer.lab.asking.extract import extract
    from oodometer.lab.asking.session import Session
    from oodometer.lab.detector_models import detector_model
    from oodometer.lab.search import SearchResult, Variation, search
    from oodometer.lab.training.task import Batch, Task
    from oodometer.outputs import Head, Outputs, View
    from oodometer.registry import Detector, Scorer, detector
    from oodometer.reports import report
    from oodometer.score_files import load_scores, save_scores
    from oodometer.scores import ScoreRow, ScoreTable, SetInfo
    from oodometer.scoring import needs_of, score
    from oodometer.study import Factor, Study, TrainSpec, load_study

__version__ = "0.1.0"

_HOME = {
    "Attack": "attacks",
    "Batch": "lab.training.task",
    "Certificate": "fitted",
    "Detector": "registry",
    "Evaluation": "comparison",
    "Factor": "study",
    "Finding": "finding",
    "FittedDetector": "fitted",
    "FittedGenerator": "fitted",
    "Head": "outputs",
    "Outputs": "outputs",
    "ScoreRow": "scores",
    "ScoreTable": "scores",
    "SearchResult": "lab.search",
    "Session": "lab.asking.session",
    "SetInfo": "scores",
    "Scorer": "registry",
    "Study": "study",
    "Task": "lab.training.task",
    "TrainSpec": "study",
    "UserError": "errors",
    "Variation": "lab.search",
    "View": "outputs",
    "analyze": "analysis",
    "attack": "attacks",
    "attack_scores": "attacks",
    "certify": "fitted",
    "compare": "comparison",
    "detector": "registry",
    "detector_model": "lab.detector_models",
    "diagnose": "diagnosis",
    "evaluate": "evaluation",
    "evaluate_outputs": "evaluation",
    "extract": "lab.asking.extract",
    "fit_detector": "fitted",
    "fit_generator": "fitted",
    "load_detector": "fitted",
    "load_generator": "fitted",
    "load_scores": "score_files",
    "load_study": "study",
    "needs_of": "scoring",
    "report": "reports",
    "save_scores": "score_files",
    "score": "scoring",
    "search": "lab.search",
}
_MODULES = ("metrics", "stats")

__all__ = [
    "Attack",
    "Batch",
    "Certificate",
    "Detector",
    "Evaluation",
    "Factor",
    "Finding",
    "FittedDetector",
    "FittedGenerator",
    "Head",
    "Outputs",
    "ScoreRow",
    "ScoreTable",
    "Scorer",
    "SearchResult",
    "Session",
    "SetInfo",
    "Study",
    "Task",
    "TrainSpec",
    "UserError",
    "Variation",
    "View",
    "analyze",
    "attack",
    "attack_scores",
    "certify",
    "compare",
    "detector",
    "detector_model",
    "diagnose",
    "evaluate",
    "evaluate_outputs",
    "extract",
    "fit_detector",
    "fit_generator",
    "load_detector",
    "load_generator",
    "load_scores",
    "load_study",
    "metrics",
    "needs_of",
    "report",
    "save_scores",
    "score",
    "search",
    "stats",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name in _MODULES:
        return importlib.import_module(f"oodometer.{name}")
    if name in _HOME:
        return getattr(importlib.import_module(f"oodometer.{_HOME[name]}"), name)
    raise AttributeError(f"module 'oodometer' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
