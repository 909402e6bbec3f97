"""What stands beside the claims of OD-test: caveats, gaps and facts."""

from __future__ import annotations

from collections.abc import Sequence

from oodometer.protocols.common.words import SIGNIFICANT, listing, missing_lines
from oodometer.protocols.od_test.effects import FEWEST_SETS, Accuracies
from oodometer.protocols.od_test.experiments import TUNED, Source
from oodometer.protocols.od_test.threshold import Fit
from oodometer.scores import ScoreTable


def caveats(
    tables: Sequence[ScoreTable], accuracies: Accuracies, threshold: Fit
) -> tuple[str, ...]:
    """What a reader must bear in mind."""
    sets = {name for source in accuracies.sources for pair in source.experiments for name in pair}
    lines = [
        "Samples of every data set are halved: thresholds and settings are chosen on the one half, "
        "accuracy is measured on the other. Both classes are cut to the size of the smaller, the "
        "first samples kept.",
        "Intervals are for other outlier sets of the kind of these, other ID samples"
        + (", and another training run" if any(len(s.runs) > 1 for s in accuracies.sources) else "")
        + ". P-values are adjusted by Holm's method, also for having picked the best method from "
        f"the same data; the significance level is {SIGNIFICANT:.0%}.",
    ]
    if all(len(source.runs) == 1 for source in accuracies.sources):
        lines.append("There is a single training run: nothing can be said about retraining.")
    once = list(dict.fromkeys(name for source in accuracies.sources for name in source.once))
    if once:
        others = {name.removesuffix(TUNED) for name in accuracies.methods} - {*once}
        lines.append(
            f"Same scores in all training runs: {listing(once)}. How far retraining would move "
            f"{'it' if len(once) == 1 else 'them'} is unknown"
            + ("; the variance is taken to be the largest of the other methods, on one degree of "
               "freedom." if others else ".")
        )  # fmt: skip
    if len(sets) < FEWEST_SETS:
        lines.append(
            f"There are {len(sets)} outlier sets: fewer than {FEWEST_SETS} do not allow "
            "intervals for other outlier sets, so nothing is decided."
        )
    if threshold == "hinge":
        lines.append(
            "Thresholds were fitted as published, with the hinge loss: its steps depend on the "
            "scale of the scores, and it does not maximise accuracy."
        )
    if any(name.endswith(TUNED) for name in accuracies.methods):
        lines.append(
            "Tuned: the setting of the grid with the highest AUROC between the validation samples "
            "of ID data and of the validation outliers."
        )
    fitted = list(dict.fromkeys(name for table in tables for name in table.fitted_on_outliers))
    if fitted:
        lines.append(
            "Fitted on the validation outliers, not only their thresholds: "
            f"{listing(fitted)}. Their results with two data sets show what it is worth to know "
            "outliers beforehand, and say nothing about unknown ones."
        )
    unusable = [part for table in tables for part in table.missing if part.setting]
    lines += [
        f"A setting of the grid could not be used; {line}"
        for line in missing_lines(unusable, sum(len(table.runs) for table in tables))
    ]
    return tuple(lines)


def missing(tables: Sequence[ScoreTable], sources: Sequence[Source]) -> tuple[str, ...]:
    """What the tables say themselves, and the methods that could not take part."""
    lines: list[str] = []
    for table in tables:
        whole = [part for part in table.missing if not part.setting]
        lines += missing_lines(whole, len(table.runs))
        small = sorted({row.dataset for row in table.rows if len(row.scores) < 2})
        lines += [f"data set {name}: one sample cannot be halved" for name in small]
    for source in sources:
        if source.incomplete:
            where = f" on {source.name}" if len(sources) > 1 else ""
            lines.append(
                f"without all scores{where}, so not compared: {listing(source.incomplete)}"
            )
    known = [set(source.methods) | set(source.incomplete) for source in sources]
    for name in dict.fromkeys(name for names in known for name in sorted(names)):
        lacking = [s.name for s, names in zip(sources, known, strict=True) if name not in names]
        if lacking:
            lines.append(f"{name}: no scores on {listing(lacking)}, so not in the overall mean")
    return tuple(lines)


def facts(tables: Sequence[ScoreTable], accuracies: Accuracies) -> tuple[tuple[str, str], ...]:
    """What was done."""
    names = [source.name for source in accuracies.sources]
    runs = sorted({len(source.runs) for source in accuracies.sources})
    sets = {name for source in accuracies.sources for pair in source.experiments for name in pair}
    sizes = sorted({len(r.scores) for t in tables for r in t.rows if r.dataset == t.id})
    return (
        ("in-distribution data", ", ".join(names)),
        ("test samples, before halving", " / ".join(map(str, sizes))),
        ("training runs", "–".join(map(str, dict.fromkeys((runs[0], runs[-1]))))),
        ("methods", str(len(accuracies.methods))),
        ("outlier sets", str(len(sets))),
        ("experiments per method", str(sum(len(s.experiments) for s in accuracies.sources))),
    )
