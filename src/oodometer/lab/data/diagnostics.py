"""Is an outlier set a fair one: what it shares with the other set, and what betrays it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from oodometer.errors import UserError
from oodometer.finding import Claim, Finding, Series, Table, Verdict
from oodometer.lab.data import duplicates, shortcuts
from oodometer.lab.data.cards import CARDS
from oodometer.lab.data.class_names import SharedName, shared_names
from oodometer.lab.data.datasets import load_part, split_options
from oodometer.lab.data.duplicates import Copy, Pixels
from oodometer.lab.data.outliers import load_outliers
from oodometer.lab.data.samples import Images
from oodometer.lab.data.sources import Source, at_most
from oodometer.metrics import Estimate, auroc_interval

NEAR = 0.95  # correlation from which two images are near copies
WEAK, STRONG = 0.6, 0.75  # AUROC of the probe: below, hardly a shortcut; above, a real one
_SHOWN = 20  # rows of a table of examples
_FEWEST = 25  # images per set for the probe


def diagnose(
    id_images: ArrayLike,
    ood_images: ArrayLike,
    *,
    id_name: str = "ID",
    ood_name: str = "OOD",
    id_classes: Sequence[str] = (),
    ood_classes: Sequence[str] = (),
    near: float = NEAR,
    seed: int = 0,
) -> Finding:
    """Say whether two sets share images or classes, and whether simple statistics tell them apart.

    Images are (n, channels, height, width), floats in [0, 1] or bytes, and of one shape. Compared
    are: pixels in 256 steps (exact copies); grey images without coarse shading at the best shift
    of up to one pixel, mirrored or not (near copies: correlation of at least `near`); names of
    classes, if given; and a logistic model on up to nine statistics such as brightness, contrast
    and sharpness, with the AUROC of five-fold cross-validation. `seed` is that of the folds.
    """
    known, outliers = _pixels(id_images, id_name), _pixels(ood_images, ood_name)
    if known.shape[1:] != outliers.shape[1:]:
        raise UserError(
            f"Images of '{id_name}' have shape {known.shape[1:]}, those of '{ood_name}' "
            f"{outliers.shape[1:]}: both must agree."
        )
    if not 0 < near < 1:
        raise UserError(f"near must be a correlation between 0 and 1, got {near}.")
    exact = duplicates.exact_copies(known, outliers)
    same = {copy.second for copy in exact}
    close = [c for c in duplicates.near_copies(known, outliers, near) if c.second not in same]
    claims = [
        _copies_claim(exact, len(outliers), id_name, ood_name, "an exact copy", "pixel by pixel"),
        _copies_claim(
            close,
            len(outliers),
            id_name,
            ood_name,
            "a near copy",
            f"correlation of at least {near:g}",
        ),
    ]
    tables = [_copies_table(exact, close, id_name, ood_name)] if exact or close else []
    missing = []
    if id_classes and ood_classes:
        shared = shared_names(id_classes, ood_classes)
        claims.append(_classes_claim(shared, id_name, ood_name))
        if shared:
            tables.append(_classes_table(shared, id_name, ood_name))
    else:
        missing.append("names of classes: not given for both sets")
    series = []
    if min(len(known), len(outliers)) >= _FEWEST:
        claim, table, picture = _shortcut(known, outliers, id_name, ood_name, seed)
        claims.append(claim)
        tables.append(table)
        series.append(picture)
    else:
        missing.append(f"the shortcut probe: it needs {_FEWEST} images per set")
    return Finding(
        protocol="diagnose",
        title=f"{ood_name} as outliers for {id_name}",
        question=(
            f"Is {ood_name} a fair outlier set for {id_name}: do they share images or classes, and "
            "can they be told apart without a look at what they show?"
        ),
        claims=tuple(claims),
        tables=tuple(tables),
        series=tuple(series),
        caveats=(
            f"Near copies are told by a correlation of at least {near:g}. Drawings with few "
            "strokes reach it by chance: two different handwritten ones, for example.",
            "A shortcut says what a detector could use, not what it does use.",
        ),
        missing=tuple(missing),
        facts=(
            (f"images of {id_name}", str(len(known))),
            (f"images of {ood_name}", str(len(outliers))),
        ),
    )


def diagnose_sets(data: str, outliers: Sequence[str], most: int | None = None) -> list[Finding]:
    """Diagnose outlier sets for a data set, all as a study names them; of each at most so many.

    All parts of the data set count, since a copy in either is no outlier.
    """
    for name in outliers:
        if outliers.count(name) > 1:
            raise UserError(f"Outlier set '{name}' is named twice.")
    known = at_most(load_part(data, "all"), most)
    source = Source(known.name, known, known, None, 0, test_size=most)
    findings = []
    for name in outliers:
        found = load_outliers(name, source)
        assert isinstance(found, Images), "the outliers of images are images"
        findings.append(
            diagnose(
                known.pixels,
                found.pixels,
                id_name=known.name,
                ood_name=found.name,
                id_classes=_class_names(data),
                ood_classes=_class_names(name),
            )
        )
    return findings


def _class_names(data: str) -> tuple[str, ...]:
    card = CARDS.get(split_options(data, ["part", "size", "rule"])[0])
    return () if card is None else card.class_names


def _pixels(images: ArrayLike, name: str) -> Pixels:
    array = np.asarray(images)
    if array.ndim != 4 or not array.size or array.shape[1] not in (1, 3):
        raise UserError(
            f"Images of '{name}' must have shape (n, 1 or 3, height, width), got {array.shape}."
        )
    if array.dtype == np.uint8:
        return array.astype(np.float32) / np.float32(255)
    pixels = array.astype(np.float32)
    if not (np.isfinite(pixels).all() and pixels.min() >= 0 and pixels.max() <= 1):
        raise UserError(f"Images of '{name}' must lie in [0, 1], or be bytes.")
    return pixels


def _copies_claim(
    copies: list[Copy], count: int, id_name: str, ood_name: str, kind: str, evidence: str
) -> Claim:
    if not copies:
        text = f"No image of {ood_name} has {kind} in {id_name}."
        return Claim(text, "holds", f"{evidence}, {count} images")
    verb = "has" if len(copies) == 1 else "have"
    text = (
        f"{len(copies)} of {count} images of {ood_name} {verb} {kind} in {id_name}: a detector "
        "that accepts them is right."
    )
    return Claim(text, "flips", f"{evidence}, {len(copies) / count:.2%} of {ood_name}")


def _copies_table(exact: list[Copy], close: list[Copy], id_name: str, ood_name: str) -> Table:
    ranked = exact + sorted(close, key=lambda copy: -copy.correlation)
    note = f"The first {_SHOWN} of {len(ranked)}." if len(ranked) > _SHOWN else ""
    return Table(
        name="copies",
        title="Images that both sets have",
        columns=(f"row in {ood_name}", f"row in {id_name}", "kind", "correlation"),
        rows=tuple(
            (c.second, c.first, "exact" if place < len(exact) else "near", c.correlation)
            for place, c in enumerate(ranked[:_SHOWN])
        ),
        note=note,
    )


def _classes_claim(shared: list[SharedName], id_name: str, ood_name: str) -> Claim:
    same = [pair for pair in shared if pair.kind == "same"]
    others = len(shared) - len(same)
    evidence = f"same name: {len(same)}, shared word: {others}"
    if same:
        names = _listing([pair.second for pair in same[:5]], len(same))
        text = f"{ood_name} has classes that {id_name} has too: {names}. They are no outliers."
        return Claim(text, "flips", evidence)
    if others:
        text = (
            f"No class of {ood_name} has the name of one of {id_name}, but {others} "
            f"{'pair shares' if others == 1 else 'pairs share'} a word; somebody has to look."
        )
        return Claim(text, "undecided", evidence)
    return Claim(f"No class of {ood_name} is, by name, one of {id_name}.", "holds", evidence)


def _classes_table(shared: list[SharedName], id_name: str, ood_name: str) -> Table:
    return Table(
        name="classes",
        title="Classes whose names have something in common",
        columns=(f"class of {id_name}", f"class of {ood_name}", "in common"),
        rows=tuple((pair.first, pair.second, pair.kind) for pair in shared[:_SHOWN]),
        note=f"The first {_SHOWN} of {len(shared)}." if len(shared) > _SHOWN else "",
    )


def _shortcut(
    known: Pixels, outliers: Pixels, id_name: str, ood_name: str, seed: int
) -> tuple[Claim, Table, Series]:
    ours, theirs = shortcuts.statistics(known), shortcuts.statistics(outliers)
    single = {name: auroc_interval(ours[name], theirs[name]) for name in ours}
    together = auroc_interval(*shortcuts.probe(ours, theirs, seed))
    ranked = sorted(single, key=lambda name: -_told(single[name]).value)
    rows = tuple(
        (
            name,
            single[name],
            float(ours[name].mean()),
            float(theirs[name].mean()),
            shortcuts.MEANINGS[name],
        )
        for name in ranked
    )
    table = Table(
        name="shortcuts",
        title="What single statistics of an image tell",
        columns=("statistic", "AUROC", f"mean of {id_name}", f"mean of {ood_name}", "what it is"),
        rows=rows,
        note=f"AUROC above 0.5: larger in {ood_name}; below: smaller. 0.5 tells nothing.",
    )
    points = [("all together", together), *((name, _told(single[name])) for name in ranked)]
    picture = Series(
        kind="intervals",
        name="shortcuts",
        title="How far simple statistics tell the sets apart",
        description=(
            f"AUROC of a logistic model on all statistics, {_number(together.value)}, and of each "
            f"statistic alone, the best of which is {ranked[0]}."
        ),
        value_label="AUROC",
        points=tuple(
            {
                "label": name,
                "group": "model" if name == "all together" else "single statistic",
                "value": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
            }
            for name, estimate in points
        ),
        higher_is_better=False,
    )
    return _shortcut_claim(together, ranked, id_name, ood_name), table, picture


def _shortcut_claim(together: Estimate, ranked: list[str], id_name: str, ood_name: str) -> Claim:
    best = _listing(ranked[:3], min(3, len(ranked)))
    evidence = (
        f"{_number(together.value)} [{_number(together.low)}, {_number(together.high)}], logistic "
        f"model on {len(ranked)} statistics, five-fold cross-validation"
    )
    verdict: Verdict
    if together.low >= STRONG:
        text, verdict = (
            f"A model that sees only simple statistics, above all {best}, tells {ood_name} from "
            f"{id_name} with AUROC {_number(together.value)}: a detector may do no more than that.",
            "flips",
        )
    elif together.low > 0.5 and together.high > WEAK:
        text, verdict = (
            f"Simple statistics, above all {best}, tell {ood_name} from {id_name} with AUROC "
            f"{_number(together.value)}: what a detector reaches beyond that is its own.",
            "undecided",
        )
    elif together.high <= WEAK:
        text, verdict = (
            f"Simple statistics of brightness, sharpness, colour and compression hardly tell "
            f"{ood_name} from {id_name}.",
            "holds",
        )
    else:
        text, verdict = (
            f"Whether simple statistics tell {ood_name} from {id_name} cannot be said from so few "
            "images.",
            "undecided",
        )
    return Claim(text, verdict, evidence)


def _told(estimate: Estimate) -> Estimate:
    """The same AUROC, whichever of the two sets has the larger values."""
    value, low, high = estimate
    return estimate if value >= 0.5 else Estimate(1 - value, 1 - high, 1 - low)


def _number(value: float) -> str:
    return f"{int(value * 1e4) / 1e4:.4f}" if 0.9995 <= value < 1 else f"{value:.3f}"


def _listing(names: Sequence[str], total: int) -> str:
    if total > len(names):
        return f"{', '.join(names)} and {total - len(names)} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
