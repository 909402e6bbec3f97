"""Protocols: what is asked of scores or of results, each a pure function that returns a Finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oodometer.errors import unknown
from oodometer.factors import LABELS, first_titled
from oodometer.finding import Finding
from oodometer.protocols.agreement.protocol import metric_agreement
from oodometer.protocols.common.measured import Measured
from oodometer.protocols.instability.protocol import instability, instability_of
from oodometer.protocols.label_noise.protocol import label_noise, label_noise_of
from oodometer.protocols.od_test.protocol import od_test
from oodometer.protocols.ranking.protocol import ranking, ranking_of
from oodometer.protocols.ranking.unpaired import are_separate, says_all, unpaired
from oodometer.protocols.robustness.protocol import robustness, robustness_of
from oodometer.protocols.spread.protocol import spread
from oodometer.protocols.tuning.protocol import tuning
from oodometer.protocols.worst_case.protocol import worst_case
from oodometer.scores import ScoreTable

OfScores = Callable[[ScoreTable, np.random.Generator], Finding]
OfOurs = Callable[[ScoreTable, np.random.Generator, str], Finding]
OfResults = Callable[[Measured, np.random.Generator], Finding]


def _always(measured: Measured) -> bool:
    return True


@dataclass(frozen=True)
class Protocol:
    """What a protocol asks, and how it answers from scores, from results, or from either."""

    description: str
    of_scores: OfScores | None = None  # for studies and `evaluate`
    of_results: OfResults | None = None  # for `analyze`
    of_ours: OfOurs | None = None  # from scores, about a detector that is declared in advance
    applies: Callable[[Measured], bool] = _always  # whether a results table allows the question
    is_required: bool = False  # a results table that does not allow it allows nothing


def _is_varied(measured: Measured) -> bool:
    main = measured.main
    return any(factor.kind != "part" for factor in main.factors) and not are_separate(main)


PROTOCOLS: dict[str, Protocol] = {
    "unpaired": Protocol(
        "Which detector is best, if detectors do not share their runs or state mean ± spread?",
        of_results=lambda measured, rng: unpaired(measured.main, measured.ours),
        applies=lambda measured: measured.states_runs or are_separate(measured.main),
    ),
    "ranking": Protocol(
        "Which detector is best, how certain is that, and does it survive retraining?",
        ranking,
        lambda measured, rng: ranking_of(measured.main, rng, measured.ours),
        ranking,
        lambda measured: not are_separate(measured.main) and not says_all(measured.main),
        is_required=True,
    ),
    "robustness": Protocol(
        "Which detector varies least over a factor, by the robustness score?",
        robustness,
        lambda measured, rng: robustness_of(*(measured.separating or [measured.main])),
        applies=_is_varied,
    ),
    "instability": Protocol(
        "How far does each factor move every detector, and which order survives?",
        instability,
        lambda measured, rng: instability_of(measured.main, ours=measured.ours),
        instability,
        _is_varied,
    ),
    "label_noise": Protocol(
        "What does label noise cost each detector, and what helps?",
        label_noise,
        lambda measured, rng: label_noise_of(measured.by_metric, rng),
        applies=lambda measured: first_titled(measured.main.factor_names, LABELS) is not None,
    ),
    "metric_agreement": Protocol(
        "Do several metrics agree on the order of detectors?",
        of_results=lambda measured, rng: metric_agreement(measured.separating, measured.ours),
        applies=lambda measured: len(measured.separating) > 1,
    ),
    "od_test": Protocol(
        "Which detector is best on outliers unlike those that its threshold was chosen on?", od_test
    ),
    "tuning": Protocol("What does tuning gain, on outliers that were not tuned on?", tuning),
    "worst_case": Protocol(
        "What is left of a detector if somebody searches for outliers that fool it?", worst_case
    ),
    "spread": Protocol("How far do training runs of one classifier differ?", spread),
}


def score_protocol(name: str, ours: str = "") -> OfScores:
    """Return the protocol of this name that takes scores; refuse any other name.

    It compares detectors in pairs that are declared in advance, if it can, where `ours` names one.
    """
    known = {key: made.of_scores for key, made in PROTOCOLS.items() if made.of_scores is not None}
    if name not in known:
        raise unknown("protocol", name, known)
    of_ours = PROTOCOLS[name].of_ours
    if ours and of_ours is not None:
        return lambda table, rng: of_ours(table, rng, ours)
    return known[name]
