"""Which classifiers have learned anything: what detectors do on the others says little."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import bdtrc

from oodometer.factors import names
from oodometer.finding import Finding
from oodometer.protocols.common.words import count, listing, missing_lines
from oodometer.scores import ScoreTable

_CONFIDENCE = 0.99  # that the accuracy is above chance
_FEWEST = 3  # training runs of one condition, for a median that one of them does not move
_FAR = 0.05  # below the median of its siblings, and also
_DEVIATIONS = 5.0  # times their standard deviation, estimated by the median of deviations
_NAMED = 5  # in a sentence
_NORMAL = 1.4826  # standard deviation over median absolute deviation, for a normal distribution


@dataclass(frozen=True)
class Unlearned:
    """A training run whose classifier did not learn; `runs` are its evaluations."""

    runs: tuple[str, ...]
    accuracy: float  # of the first of them, the best
    against: float  # chance, or the median of its siblings
    is_chance: bool

    def __str__(self) -> str:
        other = "chance" if self.is_chance else "median of its siblings"
        found = f"test accuracy {self.accuracy:.1%}, {other} {self.against:.1%}"
        return f"{self.runs[0]} ({found})" if self.runs[0] else found


def accuracies(table: ScoreTable) -> dict[str, float]:
    """The test accuracy of each run whose test labels are known."""
    return {run: float(np.mean(right)) for run, right in table.correct.items() if len(right)}


def is_above_chance(right: int, samples: int, chance: float) -> bool:
    """Whether an accuracy is above chance with 99% confidence, by the exact binomial test.

    >>> is_above_chance(13, 100, 0.1), is_above_chance(20, 100, 0.1)
    (False, True)
    """
    return bool(bdtrc(right - 1, samples, chance) <= 1 - _CONFIDENCE)


def unlearned(table: ScoreTable) -> tuple[Unlearned, ...]:
    """Find the classifiers that did not learn, by their accuracy on the in-distribution test set.

    One that is not above chance, which is that of always naming the most frequent class; or one
    far below its siblings, the training runs that differ from it in repeats alone, such as the
    seed: lower than their median by more than 5 points and by more than 5 standard deviations.
    Conditions may be worse than others, as label noise is, and are not compared. Evaluations of one
    training run, such as its epochs, are judged by the best of them: they change how a classifier
    is read, not whether it has learned.
    """
    known = accuracies(table)
    best = _training_runs(table)
    conditions = set(table.factor_names) - set(names(table.factors, "re_evaluation", "repeat"))
    siblings: dict[frozenset[object], list[float]] = {}
    for runs in best:
        condition = _levels(table, runs[0], conditions)
        siblings.setdefault(condition, []).append(known[runs[0]])
    found = []
    for runs in best:
        run, accuracy = runs[0], known[runs[0]]
        right, chance = table.correct[run], table.chance.get(run)
        if chance is not None and not is_above_chance(int(right.sum()), len(right), chance):
            found.append(Unlearned(runs, accuracy, chance, is_chance=True))
            continue
        others = np.array(siblings[_levels(table, run, conditions)])
        median = float(np.median(others))
        spread = _NORMAL * float(np.median(np.abs(others - median)))
        if len(others) >= _FEWEST and accuracy < median - max(_FAR, _DEVIATIONS * spread):
            found.append(Unlearned(runs, accuracy, median, is_chance=False))
    return tuple(found)


def _training_runs(table: ScoreTable) -> list[tuple[str, ...]]:
    """The runs that evaluate each training run, the best first, where labels are known."""
    known = accuracies(table)
    trained = set(table.factor_names) - set(names(table.factors, "re_evaluation"))
    found: dict[frozenset[object], tuple[str, ...]] = {}
    for run in sorted(known, key=lambda run: -known[run]):
        key = _levels(table, run, trained)
        found[key] = (*found.get(key, ()), run)
    return list(found.values())


def _levels(table: ScoreTable, run: str, factors: Collection[str]) -> frozenset[object]:
    return frozenset(pair for pair in table.runs[run].items() if pair[0] in factors)


def without(table: ScoreTable, runs: Collection[str]) -> ScoreTable:
    """The table without some runs; at least one must remain."""
    kept = {run: levels for run, levels in table.runs.items() if run not in runs}
    assert kept, "nothing would remain"
    return replace(
        table,
        rows=tuple(row for row in table.rows if row.run in kept),
        runs=kept,
        missing=tuple(part for part in table.missing if part.run not in runs),
        correct={run: right for run, right in table.correct.items() if run in kept},
        chance={run: chance for run, chance in table.chance.items() if run in kept},
    )


@dataclass(frozen=True, eq=False)
class Learning:
    """What is known of a table's classifiers, and the table of those that learned."""

    table: ScoreTable | None  # None: no classifier learned
    caveats: tuple[str, ...]
    left_out: tuple[str, ...]
    warning: str = ""  # what the answer of a page must not leave out

    def tell(self, finding: Finding, *, is_first: bool = False) -> Finding:
        """Put its caveats before all others, and name what was left out.

        The answer of the first finding of a page ends with the warning: a recommendation that rests
        on classifiers that guess is not worth following, and nobody looks for that in caveats.
        """
        answer = finding.answer
        if is_first:
            answer = " ".join(part for part in (answer, self.warning) if part)
        return replace(
            finding,
            answer=answer,
            caveats=(*self.caveats, *finding.caveats),
            missing=(*finding.missing, *self.left_out),
        )


def judge_learning(table: ScoreTable, *, keep: bool = False, expected: float = 0.0) -> Learning:
    """Leave out the classifiers that did not learn, unless they are to be kept, and say so.

    `expected` is the accuracy that the study promises.
    """
    found = unlearned(table)
    failed = {run for part in found for run in part.runs}
    remain = keep or not found or failed < set(table.runs)
    fact = _unlearned_of_all(table, found, keep=keep)
    caveats = (*_tell_unlearned(fact, found), *_tell_low(table, failed, expected))
    if not found:
        return Learning(table, caveats, ())
    if keep:
        return Learning(
            table, caveats, (), f"{_sentence(fact)}: what detectors do then says little."
        )
    left_out = tuple(f"run {run}: left out, its classifier did not learn" for run in sorted(failed))
    if remain:
        return Learning(without(table, failed), caveats, left_out, f"{fact}.")
    # No protocol sees the table, so that none says what else is missing.
    missing = (*missing_lines(table.missing, len(table.runs)), *left_out)
    return Learning(None, caveats, missing, "No classifier learned: there is nothing to compare.")


def _unlearned_of_all(table: ScoreTable, found: Sequence[Unlearned], *, keep: bool) -> str:
    """How many classifiers did not learn, and what becomes of them."""
    fate = "" if keep else " and is left out" if len(found) == 1 else " and are left out"
    whole = len(_training_runs(table))
    many = "the classifier" if whole == 1 else f"{len(found)} of {whole} classifiers"
    return f"{many} did not learn{fate}"


def _tell_unlearned(fact: str, found: Sequence[Unlearned]) -> tuple[str, ...]:
    if not found:
        return ()
    named = [str(part) for part in found[:_NAMED]]
    more = [f"{len(found) - _NAMED} more"] if len(found) > _NAMED else []
    return (f"{_sentence(fact)}: {listing([*named, *more])}.",)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _tell_low(table: ScoreTable, failed: Collection[str], expected: float) -> tuple[str, ...]:
    known = accuracies(table)
    best = [runs[0] for runs in _training_runs(table) if runs[0] not in failed]
    low = [run for run in best if known[run] < expected]
    if not low:
        return ()
    worst = min(low, key=lambda run: known[run])
    return (
        f"The study expects a test accuracy of at least {expected:.1%}; {len(low)} of "
        f"{count(len(best), 'classifier')} did not reach it, the lowest, {worst}, is "
        f"{known[worst]:.1%}.",
    )
