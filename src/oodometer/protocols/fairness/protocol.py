"""Is an outlier set a fair one? Measurements of two sets in, a finding out."""

from __future__ import annotations

from collections.abc import Sequence

from oodometer.finding import Claim, Finding, Series, Table, Verdict, themed
from oodometer.metrics import Estimate
from oodometer.overlap import FEWEST_FOR_SHORTCUTS, Copy, Overlap, SharedName, Shortcuts
from oodometer.protocols.common.views import interval_series
from oodometer.protocols.common.words import listing, number

WEAK, STRONG = 0.6, 0.75  # AUROC of the model: below, hardly a shortcut; above, a clear one
_SHOWN = 20  # rows of a table of examples


def fairness(overlap: Overlap) -> Finding:
    """Conclude whether two sets share images or classes, and whether a shortcut separates them."""
    id_name, ood_name = overlap.id_name, overlap.ood_name
    exact, near = overlap.exact_copies, overlap.near_copies
    correlated = f"correlation of at least {overlap.near:g}"
    claims = [
        _copies_claim(overlap, exact, "an exact copy", "pixel by pixel"),
        _copies_claim(overlap, near, "a near copy", correlated),
    ]
    tables = [_copies_table(overlap)] if exact or near else []
    series = []
    missing = []
    if overlap.shared_names is None:
        missing.append("class names: not given for both sets")
    else:
        claims.append(_classes_claim(overlap.shared_names, id_name, ood_name))
        if overlap.shared_names:
            tables.append(_classes_table(overlap.shared_names, id_name, ood_name))
    if overlap.shortcuts is None:
        missing.append(f"the shortcut test: it needs {FEWEST_FOR_SHORTCUTS} images per set")
    else:
        ranked = _ranked(overlap.shortcuts)
        claims.append(_shortcut_claim(ranked, id_name, ood_name))
        tables.append(_shortcut_table(ranked, id_name, ood_name))
        series.append(_shortcut_series(ranked))
    warnings = sum(claim.verdict == "warning" for claim in claims)
    return Finding(
        protocol="fairness",
        title=f"{ood_name} as outliers for {id_name}",
        question=(
            f"Is {ood_name} a fair outlier set for {id_name}: do they share images or classes, and "
            "do simple image statistics separate them, whatever the images show?"
        ),
        claims=tuple(themed("explains", claims)),
        tables=tuple(tables),
        series=tuple(series),
        caveats=(
            f"A near copy is a {correlated}. Drawings with few strokes, such as handwritten "
            "digits, can reach it by chance.",
            "A shortcut is something a detector could use, not necessarily what it does use.",
        ),
        missing=tuple(missing),
        facts=(
            (f"images of {id_name}", str(overlap.id_count)),
            (f"images of {ood_name}", str(overlap.ood_count)),
        ),
        answer=f"{ood_name} is a doubtful outlier set for {id_name}: {warnings} of "
        f"{len(claims)} checks warn{'s' if warnings == 1 else ''}."
        if warnings
        else f"Nothing speaks against {ood_name} as outliers for {id_name}: no check warns.",
    )


def _copies_claim(overlap: Overlap, copies: Sequence[Copy], kind: str, rule: str) -> Claim:
    total, id_name, ood_name = overlap.ood_count, overlap.id_name, overlap.ood_name
    if not copies:
        text = f"No image of {ood_name} has {kind} in {id_name}."
        return Claim(text, "holds", f"{rule}, {total} images")
    verb = "has" if len(copies) == 1 else "have"
    text = (
        f"{len(copies)} of {total} images of {ood_name} {verb} {kind} in {id_name}: a detector "
        "that accepts them is right."
    )
    return Claim(text, "warning", f"{rule}, {len(copies) / total:.2%} of {ood_name}")


def _copies_table(overlap: Overlap) -> Table:
    near = sorted(overlap.near_copies, key=lambda copy: -copy.correlation)
    rows = [("exact", copy) for copy in overlap.exact_copies] + [("near", copy) for copy in near]
    return Table(
        name="copies",
        title="Images that both sets contain",
        columns=(f"row in {overlap.ood_name}", f"row in {overlap.id_name}", "kind", "correlation"),
        rows=tuple(
            (copy.ood_row, copy.id_row, kind, copy.correlation) for kind, copy in rows[:_SHOWN]
        ),
        note=_shown_of(len(rows)),
    )


def _classes_claim(shared: Sequence[SharedName], id_name: str, ood_name: str) -> Claim:
    same = [pair.ood_class for pair in shared if pair.kind == "same"]
    others = len(shared) - len(same)
    evidence = f"same name: {len(same)}, shared word: {others}"
    if same:
        more = [f"{len(same) - 5} more"] if len(same) > 5 else []
        text = (
            f"{ood_name} has classes that {id_name} also has: {listing([*same[:5], *more])}. They "
            "are not outliers."
        )
        return Claim(text, "warning", evidence)
    if others:
        text = (
            f"No class of {ood_name} has the name of one of {id_name}, but {others} "
            f"{'pair shares' if others == 1 else 'pairs share'} a word: check the table by hand."
        )
        return Claim(text, "undecided", evidence)
    return Claim(f"No class of {ood_name} has the name of one of {id_name}.", "holds", evidence)


def _classes_table(shared: Sequence[SharedName], id_name: str, ood_name: str) -> Table:
    return Table(
        name="classes",
        title="Classes with similar names",
        columns=(f"class of {id_name}", f"class of {ood_name}", "in common"),
        rows=tuple(tuple(pair) for pair in shared[:_SHOWN]),
        note=_shown_of(len(shared)),
    )


def _shown_of(total: int) -> str:
    return f"The first {_SHOWN} of {total}." if total > _SHOWN else ""


def _ranked(shortcuts: Shortcuts) -> Shortcuts:
    ranked = sorted(shortcuts.statistics, key=lambda each: -_either_way(each.auroc).value)
    return shortcuts._replace(statistics=tuple(ranked))


def _shortcut_claim(ranked: Shortcuts, id_name: str, ood_name: str) -> Claim:
    model = ranked.model
    best = listing([each.name for each in ranked.statistics[:3]])
    evidence = (
        f"{number(model.value)} [{number(model.low)}, {number(model.high)}], logistic model on "
        f"{len(ranked.statistics)} statistics, five-fold cross-validation"
    )
    verdict: Verdict = "undecided"
    if model.low >= STRONG:
        verdict = "warning"
        text = (
            f"Simple statistics alone, above all {best}, separate {ood_name} from {id_name} with "
            f"AUROC {number(model.value)}: a detector may use nothing else."
        )
    elif model.low > 0.5 and model.high > WEAK:
        text = (
            f"Simple statistics alone, above all {best}, separate {ood_name} from {id_name} with "
            f"AUROC {number(model.value)}: only what a detector reaches beyond that counts."
        )
    elif model.high <= WEAK:
        verdict = "holds"
        text = (
            f"Simple statistics of brightness, sharpness, color and compression hardly separate "
            f"{ood_name} from {id_name}."
        )
    else:
        text = (
            f"There are too few images to say whether simple statistics separate {ood_name} from "
            f"{id_name}."
        )
    return Claim(text, verdict, evidence)


def _shortcut_table(ranked: Shortcuts, id_name: str, ood_name: str) -> Table:
    return Table(
        name="shortcuts",
        title="How well single image statistics separate the sets",
        columns=("statistic", "AUROC", f"mean of {id_name}", f"mean of {ood_name}", "definition"),
        rows=tuple(
            (each.name, each.auroc, each.id_mean, each.ood_mean, each.meaning)
            for each in ranked.statistics
        ),
        note=f"AUROC above 0.5: larger in {ood_name}; below: smaller; 0.5: no separation.",
    )


def _shortcut_series(ranked: Shortcuts) -> Series:
    rows = [
        ("all together", "model", ranked.model),
        *((each.name, "single statistic", _either_way(each.auroc)) for each in ranked.statistics),
    ]
    return interval_series(
        "shortcuts",
        "How well simple statistics separate the sets",
        f"AUROC of a logistic model on all statistics, {number(ranked.model.value)}, and of each "
        f"statistic alone, the best of which is {ranked.statistics[0].name}.",
        "AUROC",
        rows,
        higher_is_better=False,
        roles={},
    )


def _either_way(auroc: Estimate) -> Estimate:
    """The same AUROC, whichever of the two sets has the larger values."""
    value, low, high = auroc
    return auroc if value >= 0.5 else Estimate(1 - value, 1 - high, 1 - low)
