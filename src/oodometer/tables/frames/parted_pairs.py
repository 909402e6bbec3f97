"""Titles in two parts, of which each comes with each: Easy A, Easy B, Hard A, Hard B."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from oodometer.tables.cells import read_cell
from oodometer.tables.vocabulary.data_names import is_data
from oodometer.tables.vocabulary.measures import metric_named
from oodometer.tables.vocabulary.names import is_compared
from oodometer.tables.vocabulary.statistics import is_statistic

_SIGNS = (" ", "_", "/", "|")  # between two names of a title
_AT_RANK = re.compile(r"(?i)(?:r|p|top|hits?)?[\s@\-]*\d+")  # where rankings end: R@5, P1, top-5
HEADERS = ("header", "subheader")  # titles of the columns that both parts become
Pairs = list[tuple[str, str]]


def crossed(titles: Sequence[str]) -> Pairs | None:
    """Part titles in two, so that every first part stands before every second one, else None.

    >>> crossed(["Easy A", "Easy B", "Hard A", "Hard B"])
    [('Easy', 'A'), ('Easy', 'B'), ('Hard', 'A'), ('Hard', 'B')]
    >>> crossed(["Easy A", "Easy B", "Hard A", "Mean"])
    """
    given = list(dict.fromkeys(titles))  # one for all metrics
    for sign in filter(titles[0].__contains__, _SIGNS):
        words = titles[0].split(sign)
        for cut in range(1, len(words)):
            first, second = sign.join(words[:cut]), sign.join(words[cut:])
            groups = [t.removesuffix(sign + second) for t in given if t.endswith(sign + second)]
            below = [t.removeprefix(first + sign) for t in given if t.startswith(first + sign)]
            pairs = {f"{a}{sign}{b}": (a, b) for a in groups for b in below}
            whole = second.startswith("+") or first.endswith("+")  # ResNet-50 + MSP
            are_all = min(len(groups), len(below)) > 1 and pairs.keys() == set(given)
            if are_all and not whole and _are_two(groups, below, sign):
                return [pairs[title] for title in titles]
    return None


def grouped(titles: Sequence[str]) -> Pairs | None:
    """Part titles in groups that each begin with a title that ends like the first one, else None.

    Within a group, titles need not repeat its name. Two titles of a group are not the same.

    >>> grouped(["C10 clean", "C10 noisy A", "B", "CXX clean", "CXX B"])
    [('C10', 'clean'), ('C10', 'noisy A'), ('C10', 'B'), ('CXX', 'clean'), ('CXX', 'B')]
    >>> grouped(["C10 clean", "C10 noisy"])
    """
    given = list(dict.fromkeys(titles))
    for sign in filter(given[0].__contains__, _SIGNS) if given else ():
        front, _, back = given[0].rpartition(sign)
        if front.endswith("+"):  # ResNet-50 + MSP
            continue
        end = sign + back
        pairs: dict[str, tuple[str, str]] = {}
        group = ""
        for title in given:
            group = title.removesuffix(end) if title.endswith(end) else group
            pairs[title] = (group, title.removeprefix(group + sign))
        groups, below = zip(*pairs.values(), strict=True)
        apart = len(set(pairs.values())) == len(pairs)
        shared = sum(below.count(name) > 1 for name in set(below))
        if apart and shared > 1 and len(set(groups)) > 1 and set(groups).isdisjoint(below):
            return [pairs[title] for title in titles]
    return None


def _are_two(groups: Sequence[str], below: Sequence[str], sign: str) -> bool:
    """Whether two parts of titles may name two things, not both data.

    Beside signs that names hold, too, one part must be known: data, or models beside a slash.
    """
    if not _are_names(groups) or not _are_names(below):
        return False
    data = [mostly_are(names, is_data) for names in (groups, below)]
    models = sign != "_" and (mostly_are(groups, is_compared) or mostly_are(below, is_compared))
    return not all(data) and (sign == " " or any(data) or models)


def _are_names(texts: Sequence[str]) -> bool:
    """Whether texts may name something: no metrics, ranks or numbers, not mostly statistics."""
    if all(map(_AT_RANK.fullmatch, texts)):
        return False
    no_names = (metric_named(text) is not None or read_cell(text) is not None for text in texts)
    statistics = [is_statistic(text) and not is_compared(text) for text in texts]
    return not any(no_names) and 2 * sum(statistics) < len(statistics)


def mostly_are(names: Sequence[str], test: Callable[[str], bool]) -> bool:
    """Whether at least every second name passes a test."""
    return 2 * sum(map(test, names)) >= len(names)
