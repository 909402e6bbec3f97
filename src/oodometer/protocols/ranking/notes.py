"""What limits the conclusions of a ranking, and what they are based on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oodometer.factors import names
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.cases import Cases
from oodometer.protocols.common.cells import ENOUGH
from oodometer.protocols.common.differences import FEW_RUNS, FEWEST_FOR_T, TWO_CASES, UNSEEN
from oodometer.protocols.common.score_cases import ScoreCases
from oodometer.protocols.common.sources import trained_once_caveats
from oodometer.protocols.common.training_runs import TrainingRuns
from oodometer.protocols.common.words import (
    SHOWN,
    SIGNIFICANT,
    count,
    known_data,
    listing,
    missing_lines,
    not_applicable,
    several,
)
from oodometer.protocols.ranking.value_views import one_of
from oodometer.stats.pairwise import ROUNDING
from oodometer.stats.skewness import common_skewness

ADJUSTED = (
    "P-values and intervals of differences allow for all comparisons of a detector and for having "
    f"picked the leader from the same data; p-values are judged at {SIGNIFICANT:.0%}. The leader's "
    "lead over a single other detector, without the word 'adjusted', is a pair by itself: the "
    "leader is the best if each of its leads is significant."
)
MOST_NAMED = 20  # detectors that a caveat names
SURELY_SKEWED = 0.01  # level at which a page says that runs are skewed
UNEQUAL = 4.0  # times the smallest standard deviation


def score_caveats(field: ScoreCases, ours: str) -> tuple[str, ...]:
    """What limits the conclusions from scores."""
    table, runs = field.table, len(field.training_runs)
    caveats = [
        "Detectors use their default settings, or those that were given.",
        "There is only one training run: the intervals are for other test samples, and nothing can "
        "be said about retraining."
        if runs == 1
        else "Intervals treat the training runs as a sample of all that could have been done under "
        "the conditions of this study.",
        ADJUSTED,
    ]
    if 1 < runs < FEW_RUNS:
        caveats += [UNSEEN, *skewed_caveats(_run_values(field))]
    if runs == FEWEST_FOR_T - 1:
        caveats.append(TWO_CASES.format(count(runs, "training run")))
    if field.training_runs.has_re_evaluations:
        caveats.append(re_evaluations_caveat(len(field.runs), runs))
    caveats += field.units.caveats(runs)
    caveats += trained_once_caveats(field.sources, field.detectors)
    if not table.same_samples:
        caveats.append(f"The {field.run_word}s do not share their test samples.")
    caveats += not_applicable(table.missing, len(table.runs))
    unusable = [part for part in table.missing if part.setting and not part.lasting]
    caveats += [
        f"A setting of the grid could not be used; {line}"
        for line in missing_lines(unusable, len(table.runs))
    ]
    if field.unranked:
        caveats.append(
            f"Not ranked, because some of their scores are missing: {listing(field.unranked)}."
        )
    if table.fitted_on_outliers:
        caveats.append(
            "Left out, because they were fitted on outliers of these sets: "
            f"{listing(table.fitted_on_outliers)}; the protocol od_test measures them on outliers "
            "that they have not seen."
        )
    return (*caveats, *_about_ours(ours, field.detectors))


def _run_values(field: ScoreCases) -> Floats:
    return np.array([field.overall[name].values for name in field.detectors])


def skewed_caveats(values: Floats) -> list[str]:
    """Say of (detectors, runs) that are skewed, and vary unequally, what that does to the tests."""
    skewness, chance = common_skewness(values)
    spreads = values.std(axis=1)
    spreads = spreads[spreads > ROUNDING * np.abs(values).max()]
    if chance >= SURELY_SKEWED or spreads.max() < UNEQUAL * spreads.min():
        return []
    near, far = ("below", "above") if skewness < 0.0 else ("above", "below")
    times = f"{spreads.max() / spreads.min():.0f}-fold"
    return [
        f"Single runs lie far {near} the mean of their detector more often than far {far}, and "
        f"standard deviations differ {times}: of tables like this, about 10% rather than 5% tell "
        "equal detectors apart, whatever the test. Look at single runs before you rely on a small "
        "lead."
    ]


def _about_ours(ours: str, compared: Sequence[str]) -> tuple[str, ...]:
    """Say that the detector that was declared in advance lacks too much to be compared."""
    if not ours or ours in compared:
        return ()
    return (f"{ours} was declared in advance, but could not be compared.",)


def score_facts(field: ScoreCases, ours: str) -> tuple[tuple[str, str], ...]:
    """What the comparison is based on."""
    table = field.table
    sizes = {len(row.scores) for row in table.rows if row.dataset == table.id}
    wanted = len(TrainingRuns.of(table.runs, table.factors))
    facts = [
        *known_data(table),
        ("test samples", " / ".join(map(str, sorted(sizes)))),
        ("training runs", _of(len(field.training_runs), wanted)),
        ("detectors", _of(len(field.detectors), len(field.represented))),
        ("outlier sets", str(len(table.ood))),
    ]
    accuracies = [float(table.correct[run].mean()) for run in field.runs if run in table.correct]
    if accuracies:
        low, high = min(accuracies), max(accuracies)
        facts.append(("test accuracy", f"{low:.1%} – {high:.1%}" if high > low else f"{low:.1%}"))
    return (*facts, *_declared(ours))


def _of(have: int, wanted: int) -> str:
    return str(have) if have == wanted else f"{have} of {wanted}"


def value_caveats(field: Cases, ours: str) -> tuple[str, ...]:
    """What limits the conclusions from values."""
    about = (*_about_cases(field), *_about_tests(field), *_about_gaps(field))
    return (*about, *_about_ours(ours, field.detectors))


def value_facts(field: Cases, ours: str) -> tuple[tuple[str, str], ...]:
    """What the comparison is based on."""
    facts = {
        "metric": field.metric,
        "detectors": _of(len(field.detectors), len(field.detectors) + len(field.left_out)),
        **({"data sets": str(len(field.cells.ids))} if field.unit == "data set" else {}),
    }
    if "spread" not in field.results.frame.columns:  # each mean is over runs of its own
        facts[several(field.case if field.are_runs else "run")] = str(len(field.training_runs))
    outliers = {pair.ood for pair in field.cells.pairs} - {""}
    if outliers:
        facts["outlier sets"] = str(len(outliers))
    return (*facts.items(), *_declared(ours))


def _declared(ours: str) -> list[tuple[str, str]]:
    return [("declared in advance", ours)] if ours else []


def _about_cases(field: Cases) -> list[str]:
    if not field.are_runs and len(field.names) == 1:
        return ["There is one number per detector: nothing can be said about chance."]
    if field.unit == "data set":
        rest = ", unless a claim says so" if field.over_runs else ""
        caveats = [
            "Each data set is one case: a detector's value is its mean over all that was measured "
            "on it, level by level. Conclusions are about other data sets like these, not about "
            f"retraining{rest}."
        ]
        if field.over_runs:
            caveats.append(
                "What a run changes may be alike on all data sets: differences must stand out "
                "over training runs, too."
            )
            if field.over_runs.units.fewest(len(field.over_runs.names)) < FEWEST_FOR_T:
                caveats.append("Two runs may agree by chance: errors are enlarged for that.")
        return caveats
    if not field.are_runs:
        return [
            f"There is only {one_of(field)}: the {several(field.case)} are the cases. Conclusions "
            f"are about other {several(field.case)} like these, not about retraining."
        ]
    caveats = [
        f"Each {field.case} is one case: a detector's value is its mean over the {field.case}'s "
        f"{field.set_word}s. Intervals and tests are about further {several(field.case)} drawn "
        "like these."
    ]
    if field.are_conditions:
        caveats.append(
            f"No run was repeated: what another {listing(names(field.factors, 'condition'), 'or')} "
            "changes may be chance."
        )
    elif conditions := names(field.factors, "condition"):
        caveats.append(
            f"Conclusions are about the levels of {listing(conditions)} in this table, and "
            "not about other levels."
        )
    if len(field.names) < FEW_RUNS and not field.are_conditions:
        caveats += [UNSEEN, *skewed_caveats(field.values)]
    caveats += field.units.caveats(len(field.names))
    if field.training_runs.has_re_evaluations:
        caveats.append(re_evaluations_caveat(len(field.run_levels), len(field.names)))
    if field.unbalanced:
        caveats.append(
            f"{count(field.unbalanced, 'cell')} ({field.case} and {field.set_word}) were left out, "
            f"so that all {several(field.case)} are compared on the same sets."
        )
    return caveats


def re_evaluations_caveat(runs: int, training_runs: int) -> str:
    """Say that runs are not training runs."""
    return (
        f"The {runs} runs are re-evaluations of {count(training_runs, 'training run')}, such as "
        "checkpoints: the mean of each training run is one case."
    )


def _about_tests(field: Cases) -> list[str]:
    caveats = [ADJUSTED] if len(field.detectors) > 1 and len(field.names) > 1 else []
    if len(field.names) == FEWEST_FOR_T - 1 and len(field.detectors) > 1:
        caveats.append(TWO_CASES.format(count(len(field.names), field.case)))
    return caveats


def kept_part(field: Cases) -> list[str]:
    """Say which part of a table is compared, if detectors have less than half of it in common."""
    table, lacking = field.results, field.incomplete + field.unbalanced
    cells = [name for name in (*table.keys, *table.factor_names) if name != "detector"]
    total = len(table.frame[cells].drop_duplicates())
    kept = total - lacking
    if kept >= ENOUGH * total:
        return []
    varied = listing([f"combinations of {field.set_word}", *table.factor_names])
    sets, word = field.kept_sets, varied if table.factor_names else several(field.set_word)
    where = f" (all on {listing(sets)})" if table.factor_names and 0 < len(sets) <= SHOWN else ""
    are = "is" if kept == 1 else "are"
    return [
        f"Only {kept} of {total} {word}{where} {are} compared: elsewhere, some detector lacks a "
        "value."
    ]


def _about_gaps(field: Cases) -> list[str]:
    caveats = []
    if "spread" in field.results.frame.columns:
        caveats.append(
            "Some cells are means with a standard deviation. The runs behind them are not known, "
            "so detectors cannot be compared run by run, and the spread enters no test here."
        )
    if field.left_out:
        named = listing(field.left_out[:MOST_NAMED])
        more = len(field.left_out) - MOST_NAMED
        others = f", and {more} more" if more > 0 else ""
        caveats.append(f"Left out, because too many cells are missing: {named}{others}.")
    if field.incomplete:
        # Without runs to tell apart, a cell is a set.
        varied = listing([f"of {field.set_word}", *field.results.factor_names])
        word = ("combination", "combinations") if field.results.factor_names else (field.set_word,)
        of = f" {varied}" if field.results.factor_names else ""
        were = "was" if field.incomplete == 1 else "were"
        caveats.append(
            f"{count(field.incomplete, *word)}{of} that some compared detector lacks {were} left "
            "out for all."
        )
    return caveats
