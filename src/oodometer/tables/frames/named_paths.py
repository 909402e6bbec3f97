"""What the names of files and folders say: detectors, seeds, data sets, levels of factors."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence, Set
from pathlib import Path

from oodometer.factors import CORRUPTIONS, LABELS, OPTIMIZERS, TITLES, plain
from oodometer.tables.formats.files import SUFFIXES
from oodometer.tables.frames.common_words import without_common_words
from oodometer.tables.vocabulary.data_names import is_data, is_set
from oodometer.tables.vocabulary.measures import metric_named
from oodometer.tables.vocabulary.names import is_detector
from oodometer.tables.vocabulary.titles import (
    ARCHITECTURE_TITLES,
    DETECTOR_TITLES,
    ID_TITLES,
    OOD_TITLES,
    REPEAT_TITLES,
    REPEAT_WORD,
)

_SEED = re.compile(
    rf"(?:^|(?<=[/_\-.,]))(s|{REPEAT_WORD})[_=\- ]?(\d+)(?=[/_\-.,]|$)",
    re.IGNORECASE,
)
_FACTORS = {*TITLES, *LABELS, *OPTIMIZERS, *CORRUPTIONS, *ARCHITECTURE_TITLES} - REPEAT_TITLES
_KEYED = re.compile(
    rf"(?i)({'|'.join(sorted(_FACTORS, key=len, reverse=True))})[\s_=\-]+(?=[^\W_])"
)
_OVERRIDE = re.compile(r"(?:^|(?<=[/,]))\+{0,2}([A-Za-z][\w.]*)=([^/,]+)")  # Hydra: lr=0.1,seed=2
SETS = "dataset"  # title of a column for data sets, of which the names in it say more


def metric_behind(files: Iterable[Path]) -> str:
    """Return the metric with which the names of all files end, as do a_auroc and b_auroc, or "".

    >>> metric_behind([Path("a_auroc.csv"), Path("b_auroc.csv")]), metric_behind([Path("auroc")])
    ('auroc', '')
    """
    ends = {file.stem.rpartition("_")[::2] for file in files}
    last = {end for _, end in ends}
    is_metric = len(last) == 1 < len(ends) and all(start for start, _ in ends)
    return last.pop() if is_metric and all(map(metric_named, last)) else ""


def named_in_paths(files: Sequence[Path], metric: str) -> dict[Path, dict[str, str]]:
    """Detector, seed and ID set of each file, as far as its path tells; else what differs in it."""
    root = Path(os.path.commonpath([file.absolute().parent for file in files]))
    named: dict[Path, dict[str, str]] = {}
    rests: dict[Path, tuple[str, str]] = {}
    inside = {file: file.absolute().relative_to(root) for file in files}
    if metric:
        less = {f: p.with_name(p.name.replace(f"_{metric}", "")) for f, p in inside.items()}
        inside = less
    of_data = _names_of_data(list(inside.values()))
    for file in files:
        named[file], text = _named_in_path(inside[file], of_data)
        folder, _, stem = text.rpartition("/")
        rests[file] = folder.strip("/_-."), stem.strip("/_-.")
    for place, name in enumerate(("folder", "file")):
        parts = {rest[place] for rest in rests.values()}
        if len(parts) > 1:
            key = _factor_of(parts) or _sets_of(parts)
            if not key and parts <= of_data:
                for file, rest in rests.items():
                    named[file][SETS] = rest[place]
                continue
            for file, rest in rests.items():
                level = rest[place][len(key) :].strip(" _=:-") if key else rest[place]
                named[file][key or name] = level or file.stem
    return named


def _factor_of(names: Collection[str]) -> str:
    """Return the factor that all names of files or folders begin with: epoch of epoch_10.

    >>> _factor_of(["corruption_fog", "corruption_motion_blur"]), _factor_of(["msp", "knn"])
    ('corruption', '')
    """
    found = {match[1] if (match := _KEYED.match(name)) else "" for name in names}
    return found.pop() if len(found) == 1 else ""


def _names_of_data(files: Sequence[Path]) -> set[str]:
    """Return the names of files, or of folders, of which most are those of data sets.

    >>> sorted(_names_of_data([Path("SVHN.csv"), Path("energy.csv"), Path("DTD.csv")]))
    ['DTD', 'SVHN', 'energy']
    """
    places = ({file.stem for file in files}, {file.parent.as_posix() for file in files})
    found = set()
    for names in (sorted(names) for names in places if len(names) > 1):
        _, bare = without_common_words(names) if "" not in names else ("", names)
        found |= {*names, *bare} if 2 * sum(map(is_data, bare)) > len(bare) else set()
    return found


def _sets_of(names: Collection[str]) -> str:
    """Return the title of data sets that all names begin with: ID of "ID CIFAR-10".

    >>> _sets_of(["OOD set SVHN", "OOD set DTD"]), _sets_of(["set A", "plan B"])
    ('OOD set', '')
    """
    title, _ = without_common_words(sorted(names))
    return title if plain(title) in ID_TITLES | OOD_TITLES and "" not in names else ""


def _named_in_path(inside: Path, of_data: Set[str]) -> tuple[dict[str, str], str]:
    """Return what one path says, column -> level, and what is left of it."""
    text = (inside.with_suffix("") if inside.suffix in SUFFIXES else inside).as_posix()
    levels: dict[str, str] = {}
    for key, value in _OVERRIDE.findall(text):
        name = key.rpartition(".")[2]
        levels["detector" if plain(name) in DETECTOR_TITLES else name] = value
    text = _OVERRIDE.sub("", text)
    seed = _SEED.search(text)
    if seed:
        kind = seed[1].casefold()
        levels["seed" if kind in ("s", "run") else kind] = seed[2]
        text = text[: seed.start()] + text[seed.end() :]
    detector = None if "detector" in levels else detector_in(inside)
    if detector in of_data:  # energy, beside wine and boston
        detector = None
    if detector:
        levels["detector"] = detector
        text = re.sub(rf"(?<![^\W_]){re.escape(detector)}(?![^\W_])", "", text)
    first = _set_before(text) if of_data.isdisjoint({*inside.parts, inside.stem}) else ""
    if first and len(inside.parts) > 1:
        levels["id"] = first
        text = text.removeprefix(first)
    return levels, text


def _set_before(text: str) -> str:
    """Return the longest name of a data set with which a path begins.

    >>> _set_before("CIFAR-100/metrics"), _set_before("cifar10_msp"), _set_before("msp")
    ('CIFAR-100', 'cifar10', '')
    """
    ends = [len(text), *(found.start() for found in re.finditer(r"[/_\-]", text))]
    return next((text[:end] for end in sorted(ends, reverse=True) if is_set(text[:end])), "")


def detector_in(file: Path) -> str | None:
    """Find the longest name of a detector in that of a file or of one of its folders."""
    for name in (file.stem, *(parent.name for parent in file.parents)):
        words = [word for word in re.split(r"(?<=[_\-.\s])|(?=[_\-.\s])", name) if word]
        spans = [
            "".join(words[start:end])
            for length in range(len(words), 0, -1)
            for start in range(len(words) - length, -1, -1)
            for end in (start + length,)
        ]
        found = next((s for s in spans if is_detector(s) and s == s.strip("_-. ")), None)
        if found:
            return found
    return None
