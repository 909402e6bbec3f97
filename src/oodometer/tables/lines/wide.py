"""What the titles of several columns of one metric tell apart: sets, detectors, runs, variants."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from oodometer.errors import UserError
from oodometer.factors import TITLES, plain, words_of
from oodometer.tables.guessing.content import are_detectors
from oodometer.tables.guessing.likeness import KEYED, are_numbers, factor_in, mostly
from oodometer.tables.guessing.roles import ALL, Roles
from oodometer.tables.vocabulary.data_names import are_attacks, are_corruptions, is_data
from oodometer.tables.vocabulary.names import is_detector, is_model
from oodometer.tables.vocabulary.titles import DATA_WORDS, ID_TITLES, OOD_TITLES, REPEAT_WORD

RESERVED = ("detector", "id", "ood", "metric", "value", "spread", "accuracy", "runs", "set", "unit")
NAMED = ("ood", "id", "detector")  # roles that titles of wide columns may have
_CORRUPTION = "corruption"  # of one test set: a condition, no data set
_VARIANT = "variant"  # of a detector: a condition, no data set
_VARIANTS = frozenset(
    {"baseline", "with", "without", "wo", "before", "after", "only", "original", "vanilla", "ours",
     "calibrated", "uncalibrated", "finetuned", "scratch", "full"}
)  # fmt: skip
_REPEAT = re.compile(rf"({REPEAT_WORD})[\s_#=\-]*(\w+)", re.IGNORECASE)
_LEVEL = re.compile(r"([^\W\d_]+(?:[\s_-][^\W\d_]+)*)[\s_#=\-]*(\d+(?:\.\d+)?)\s?%?")  # epoch 10
_SHORTEST_LEVEL = 3  # letters of a word that says what it numbers
_RUN_OF = re.compile(
    rf"(.*?\S)[\s_/\-]+({REPEAT_WORD}|severity|level|epoch|horizon|shots?|step)[\s_#=\-]*"
    r"(\d+)(?:\.0+)?",
    re.IGNORECASE,
)  # SVHN seed 0; pandas writes whole numbers as 0.0, too


def labels_of(what: str, wide: str, runs: str | None) -> dict[str, str]:
    """Say what the title of a column tells about its numbers: column of the long table -> level."""
    if not what:
        return {}
    if wide in (*NAMED, _CORRUPTION):
        if runs is None:
            return {wide: what}
        return {wide: _RUN_OF.sub(r"\1", what), runs: _RUN_OF.sub(r"\3", what)}
    numbered = next((p for p in (_REPEAT, _LEVEL, KEYED) if p.fullmatch(what)), _LEVEL)
    return {wide: what if wide in ("condition", _VARIANT) else numbered.sub(r"\2", what)}


def what_is_wide(roles: Roles) -> str:
    """Say what the titles of several columns of one metric tell apart."""
    if roles.wide:
        return "run" if roles.wide == "repeat" else roles.wide
    titles = [what for _, what in roles.measured.values() if what]
    named = _runs_or_detectors(titles, roles) or _known_factor(titles, roles)
    if named:
        return named
    level = _common_word(_LEVEL, titles) if len(titles) > 1 else None
    if roles.sets == "id" and roles.id is None and roles.ood is not None:
        return "id"
    free = roles.ood is None and (roles.id is None or roles.sets == "ood")
    if free and _are_sets(titles, level):
        if _are_variants(titles, roles):
            return _VARIANT
        _require_sets(titles, roles)
        return roles.sets
    used = {*RESERVED, *map(str.casefold, (*roles.factors, *roles.covariates))}
    return "condition" if level is None or level in used else level


def _runs_or_detectors(titles: Sequence[str], roles: Roles) -> str:
    """Return what titles name, if they number runs or name detectors, else ""."""
    repeat = _common_word(_REPEAT, titles)
    if repeat is not None:
        return repeat
    known = roles.ood is not None or roles.id is not None
    digits = len(titles) > 1 and all(map(str.isdigit, titles))
    evaluated = _evaluated_at(roles.detector or "") if digits else ""
    if evaluated or are_numbers(titles) or (digits and known):
        return evaluated or "run"
    return "detector" if are_detectors(roles) else ""


def _evaluated_at(title: str) -> str:
    """Return what numbers beside a column are, if its title says that they are no runs, else "".

    >>> _evaluated_at("incremental step"), _evaluated_at("Model / Epoch"), _evaluated_at("Model")
    ('step', 'epoch', '')
    """
    words = words_of(title)
    known = [word for word in words if word in TITLES and TITLES[word].kind == "re_evaluation"]
    return known[-1] if known else ""


def _known_factor(titles: Sequence[str], roles: Roles) -> str:
    """Return the known factor whose levels titles name, or that they are corruptions, else ""."""
    known = factor_in(titles)
    if known is not None and known not in roles.factors:
        return known
    bare = [_RUN_OF.sub(r"\1", title) for title in titles]
    if are_attacks(bare):
        return "attack"
    return _CORRUPTION if are_corruptions(bare) else ""


def _are_sets(titles: Sequence[str], level: str | None) -> bool:
    """Whether titles may be those of data sets: no levels of something that a word names."""
    stated = all("=" in title for title in titles)  # k=1, k=5
    short = level is None or (len(level) < _SHORTEST_LEVEL and not stated)  # S1, S2: some sets
    means_data = short or plain(level or "") in OOD_TITLES | DATA_WORDS | ID_TITLES
    return means_data or any(map(is_data, titles))


def _are_variants(titles: Sequence[str], roles: Roles) -> bool:
    """Whether titles beside detectors tell variants apart: baseline, with and without, networks."""
    known = any(is_data(title) for title in titles)
    networks = not known and mostly(titles, is_model)
    if roles.detector is not None and len(titles) > 1 and networks:
        return True
    words = [words_of(title) for title in titles]
    return roles.detector is not None and not known and any(w & _VARIANTS for w in words)


def _require_sets(titles: Sequence[str], roles: Roles) -> None:
    """Ask what titles beside detectors are, if they are numbers, or some name a detector."""
    different = list(dict.fromkeys(titles))
    if roles.detector is None or len(different) < 2 or any(map(is_data, different)):
        return
    if all(map(str.isdigit, different)):
        raise UserError(
            f"Nothing says what {', '.join(different[:2])}, … in the titles of columns are: "
            f"conditions ({roles.option(condition=ALL)}), repeated runs "
            f"({roles.option(repeat=ALL)}), evaluations of the same runs "
            f"({roles.option(re_evaluation=ALL)}) or data sets ({roles.option(id=ALL)})?"
        )
    if any(map(is_detector, different)):
        raise UserError(
            f"Do the titles of columns ({', '.join(different[:2])}, …) name variants, such as "
            f"scores ({roles.option(condition=ALL)}), or data sets ({roles.option(ood=ALL)})?"
        )


def _common_word(pattern: re.Pattern[str], titles: Iterable[str]) -> str | None:
    """Return the word before the number, if all titles have the same one."""
    matches = [pattern.fullmatch(title) for title in titles]
    words = {match[1].casefold() if match else None for match in matches}
    return words.pop() if len(words) == 1 else None


def run_in_titles(roles: Roles) -> str | None:
    """Say what the ends of wide titles number, as in SVHN seed0, SVHN seed1."""
    found = [_RUN_OF.fullmatch(what) for _, what in roles.measured.values() if what]
    kinds = {match[2].casefold() for match in found if match}
    used = {plain(column) for column in roles.factors}
    return kinds.pop() if found and all(found) and len(kinds) == 1 and not kinds & used else None
