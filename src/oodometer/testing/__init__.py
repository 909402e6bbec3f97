"""The contract of a detector, shipped so that anybody can hold theirs to it.

``check_detector("my_package.my_module:my_detector")`` runs every check at every setting of the
grid and returns what it found; ``assert_detector`` does the same inside a test. Everything is
measured on small made-up outputs, so the contract shows that a detector is sane, not that it is
good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

import oodometer.builtin  # noqa: F401 - registers the built-in ones
from oodometer.calls import Setting, setting_text
from oodometer.errors import describe
from oodometer.lab.detector_models.own import is_adopted
from oodometer.registry import Detector, Scorer, find
from oodometer.testing.checks import CHECKS, WHOLE_CHECKS, Broken, Trial
from oodometer.testing.own import OWN_CHECKS, OwnTrial, runs
from oodometer.testing.toys import answering, toy_outputs

__all__ = [
    "CHECKS",
    "EXCEPTIONS",
    "OWN_CHECKS",
    "WHOLE_CHECKS",
    "CheckResult",
    "assert_detector",
    "check_detector",
    "toy_outputs",
]

_COVERED = (
    "it counts training samples in bins, and whoever is in full bins only is covered alike: the "
    "ties are in the definition"
)
# The exceptions: (detector, check) -> why the check does not apply. A failure listed here is
# reported as "excepted"; an entry that nothing needs any more fails the project's own tests.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("kl_matching", "sure_predictions"): (
        "where the network is sure, the divergence is a constant of the class plus terms far below "
        "its last digit: the ties are in the definition"
    ),
    ("nac", "single_precision"): _COVERED,
    ("nac", "sure_predictions"): _COVERED,
}


@dataclass(frozen=True)
class CheckResult:
    """What one check found about one detector at one setting."""

    detector: str
    check: str
    settings: Mapping[str, Setting]  # empty for checks of the detector as a whole
    outcome: Literal["passed", "failed", "excepted"]
    message: str  # one sentence

    def __str__(self) -> str:
        setting = f"({setting_text(self.settings)})" if self.settings else ""
        return f"{self.check} {self.outcome} for {self.detector}{setting}: {self.message}"


_Subject = TypeVar("_Subject", Trial, OwnTrial, Detector)


def check_detector(
    detector: str | Detector | Callable[..., Scorer],
    settings: Mapping[str, Setting] | None = None,
    *,
    begin: Callable[[str], None] = lambda step: None,
) -> list[CheckResult]:
    """Hold a detector to the contract: every check, at every setting of its grid or at one.

    The detector is a card, the decorated function, a name, or ``package.module:name`` or
    ``file.py:name``. It is fitted on at most 1,200 samples: a grid that asks for more neighbours
    than that cannot be checked. Detector models that it needs are not trained: they answer with
    made-up numbers, higher for outliers, as many per sample as their cards say. A class or function
    of one's own on images is fitted to small planted images and held to `OWN_CHECKS`. `begin` is
    called with the name of each check before it begins.
    """
    chosen = detector if isinstance(detector, Detector) else find(detector)
    every = chosen.settings() if settings is None else [chosen.complete(settings)]
    if is_adopted(chosen):
        return [result for one in every for result in _of_own(OwnTrial(chosen, one), begin)]
    with answering(chosen.needs):
        results = [_result(chosen, {}, check, chosen, begin) for check in WHOLE_CHECKS.values()]
        for one in every:
            trial = Trial(chosen, one)
            results += [_result(chosen, one, check, trial, begin) for check in CHECKS.values()]
    return results


def _of_own(trial: OwnTrial, begin: Callable[[str], None]) -> Iterator[CheckResult]:
    """Every check of a detector of one's own; of one that does not run, there is no more to say."""
    for check in OWN_CHECKS.values():
        result = _result(trial.detector, trial.settings, check, trial, begin)
        yield result
        if check is runs and not trial.ran:
            return


def assert_detector(detector: str | Detector) -> None:
    """Raise an AssertionError that lists every check that the detector fails."""
    failures = [str(result) for result in check_detector(detector) if result.outcome == "failed"]
    if failures:
        raise AssertionError("\n".join(failures))


def _result(
    detector: Detector,
    settings: Mapping[str, Setting],
    check: Callable[[_Subject], None],
    subject: _Subject,
    begin: Callable[[str], None],
) -> CheckResult:
    name, promise = check.__name__, (check.__doc__ or "").partition("\n")[0]
    begin(f"{name}, {setting_text(settings)}" if settings else name)
    try:
        check(subject)
    except Broken as found:
        problem = str(found)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's detector
        problem = describe(error)
    else:
        return CheckResult(detector.name, name, settings, "passed", promise)
    reason = EXCEPTIONS.get((detector.name, name))
    if reason is not None:
        return CheckResult(detector.name, name, settings, "excepted", f"allowed: {reason}.")
    return CheckResult(detector.name, name, settings, "failed", problem)
