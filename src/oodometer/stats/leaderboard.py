"""Who is best, who can be, and who is behind: one procedure from which everything else follows."""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_lowercase

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from oodometer.errors import UserError
from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.metrics.delong import check_level
from oodometer.stats.comparison import Difference
from oodometer.stats.pairwise import (
    Pairwise,
    from_scores,
    from_summaries,
    from_values,
    one_sided_p_values,
    over_folds,
)

__all__ = [
    "Leaderboard",
    "Pairwise",
    "from_scores",
    "from_summaries",
    "from_values",
    "leaderboard",
    "over_folds",
]

Booleans = NDArray[np.bool_]
_MOST_SETS_OF = 100  # detectors of which all groups are found; their number may double with each


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Detectors, the best mean first. All fields and properties but `order` are in this order."""

    order: tuple[int, ...]  # rows as given
    means: tuple[Estimate, ...]  # with the interval of each mean alone
    behind: tuple[Difference, ...]  # mean - best of the others; its high end is 0: cannot be best
    separated: Booleans  # [i, j]: j is above i
    level: float
    method: str
    declared: int | None  # place of the detector that was named in advance
    ours: tuple[Difference, ...]  # declared - each, adjusted for all; empty if none is declared

    @property
    def can_be_best(self) -> Booleans:
        """Which detectors no other is above."""
        return np.asarray(~self.separated.any(axis=1))

    @property
    def is_decided(self) -> bool:
        """Whether only the first can be the best."""
        return len(self.order) > 1 and not self.can_be_best[1:].any()

    @property
    def ranks(self) -> tuple[tuple[int, int], ...]:
        """Plausible ranks: from 1 + those above to the number of detectors - those below."""
        above, below = self.separated.sum(axis=1), self.separated.sum(axis=0)
        count = len(self.order)
        return tuple((1 + int(a), count - int(b)) for a, b in zip(above, below, strict=True))

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Largest groups of detectors of which none is above another, by their places."""
        return _groups(self.separated | self.separated.T)

    @property
    def letters(self) -> tuple[str, ...]:
        """Letters of the groups that each detector is in: two without a common one are separated.

        Piepho 2004, doi:10.1198/1061860043515.
        """
        groups = self.groups
        return tuple(
            "".join(_letter(number) for number, group in enumerate(groups) if place in group)
            for place in range(len(self.order))
        )


def leaderboard(
    pairwise: Pairwise, *, level: float = 0.95, declared: int | None = None
) -> Leaderboard:
    """Compare every detector with the best of the others (Hsu 1984; Edwards & Hsu 1983).

    Detector j is above i if the one-sided test of their difference says so, allowing for the k - 1
    comparisons of i (Bonferroni), provided that some two differ after allowing for all k (k - 1):
    so equal detectors are told apart in at most 5% too. The first is above all others if each of
    them differs from it by a plain two-sided test: that the winner is the best needs no correction
    for their number (Gutmann & Maymin 1987, Annals of Statistics 15). The best detector is found
    to be behind in at most 5%, and `behind` covers mean - best of the others of all detectors at
    once: its ends are min over j of (difference + q error), at least 0, and min over those j that
    can be the best of (difference - q error), at most 0. Its p-value is below 1 - level exactly
    where the high end is 0. `declared` (a row) is compared with each of the others, two-sided, for
    k - 1, and its pairs are judged by that alone, so that nobody is behind it, or ahead of it, in
    one place only; a first that is ahead of all by plain tests is ahead of, or behind, it as well.
    All else is decided only if it differs from somebody for k - 1: if it equals all, all are equal,
    so that equal detectors are told apart no more often than it is from others.

    >>> found = leaderboard(from_values([[3.0, 3.1, 3.2], [1.1, 1.0, 1.2], [3.1, 3.0, 3.1]]))
    >>> found.order, found.letters, found.ranks
    ((0, 2, 1), ('a', 'a', 'b'), ((1, 2), (1, 2), (3, 3)))
    """
    check_level(level)
    order = np.argsort(-pairwise.means, kind="stable")
    count = order.size
    if declared is not None and not 0 <= declared < count:
        raise UserError(f"declared must be a row from 0 to {count - 1}, got {declared}.")
    if declared is not None:
        pairwise = pairwise.of_declared(declared)
    means = pairwise.means[order]
    error, df = (matrix[np.ix_(order, order)] for matrix in (pairwise.error, pairwise.df))
    gaps = means[None, :] - means[:, None]  # [i, j]: how far j is ahead of i
    single = one_sided_p_values(pairwise).T[np.ix_(order, order)]
    others = max(1, count - 1)
    place = None if declared is None else int(np.flatnonzero(order == declared)[0])
    needed = 0.0 if place is None else _least_of(place, single)
    overall = max(needed, min(1.0, count * others * float(single.min())))
    open_ = overall < 1.0 - level
    adjusted = np.maximum(overall, others * single)
    shares = np.full_like(single, (1.0 - level) / others / (1.0 if open_ else count))
    if needed >= 1.0 - level:  # intervals say the same
        shares = np.minimum(shares, (1.0 - level) * single / needed)
    if place is not None:  # a pair is judged by one rule, whoever of the two is looked at
        for own in ((place, slice(None)), (slice(None), place)):
            adjusted[own], shares[own] = 2.0 * others * single[own], 0.5 * (1.0 - level) / others
        adjusted[place, place] = 1.0
    separated = adjusted < 1.0 - level
    p_values = np.minimum(1.0, adjusted.min(axis=1))
    if count > 1:  # the first is ahead of the nearest, and so of all
        nearest = max(needed, 2.0 * float(single[1:, 0].max()))
        separated[1:, 0] |= nearest < 1.0 - level
        p_values[1:] = np.minimum(p_values[1:], nearest)
    reach = -_quantiles(df, shares) * error
    means_alone = pairwise.intervals(level)
    return Leaderboard(
        order=tuple(order.tolist()),
        means=tuple(means_alone[row] for row in order),
        behind=_behind(gaps, reach, separated, p_values),
        separated=separated,
        level=level,
        method=pairwise.method,
        declared=place,
        ours=() if place is None else _declared(place, gaps, error, df, level),
    )


def _quantiles(df: Floats, shares: Floats) -> Floats:
    """Quantiles of Student's t, each computed once: pairs often share degrees of freedom."""
    quantiles = np.empty_like(df)
    for share in np.unique(shares):
        own = shares == share
        known, places = np.unique(df[own], return_inverse=True)
        quantiles[own] = stdtrit(known, share)[places]
    return quantiles


def _behind(
    gaps: Floats, reach: Floats, separated: Booleans, p_values: Floats
) -> tuple[Difference, ...]:
    """Constrained intervals of mean - best of the others."""
    count = len(gaps)
    candidates = np.asarray(~separated.any(axis=1))
    found = []
    for i in range(count):
        others = np.arange(count) != i
        if not others.any():
            return (Difference(0.0, 0.0, 0.0, 1.0),)
        value = -float(gaps[i, others].max())
        high = float((reach[i] - gaps[i])[others].min()) if candidates[i] else 0.0
        rivals = others & candidates
        low = float(-(reach[i] + gaps[i])[rivals].max()) if rivals.any() else 0.0
        found.append(Difference(value, min(0.0, low), max(0.0, high), float(p_values[i])))
    return tuple(found)


def _least_of(place: int, single: Floats) -> float:
    """The smallest p-value of a declared detector's comparisons, two-sided, for all of them."""
    own = min(float(single[place].min()), float(single[:, place].min()))
    return min(1.0, 2.0 * max(1, len(single) - 1) * own)


def _declared(
    place: int, gaps: Floats, error: Floats, df: Floats, level: float
) -> tuple[Difference, ...]:
    """Declared detector - each of the others, simultaneous for all (Bonferroni).

    If the first is ahead of each of the others by plain tests, that settles its comparisons, too:
    all its leads are then at least the smallest plain lower end (Hsu and Berger 1999). Not if the
    declared one differs from nobody otherwise.
    """
    others = max(1, len(gaps) - 1)
    values, errors, dfs = gaps[:, place], error[place], df[place]
    p_values = np.minimum(1.0, others * _two_sided(values, errors, dfs))
    reach = -stdtrit(dfs, (0.5 - 0.5 * level) / others) * errors
    low, high = values - reach, values + reach
    if len(gaps) > 1:
        leads, spread, freedom = gaps[1:, 0], error[1:, 0], df[1:, 0]
        least = float((leads + stdtrit(freedom, 0.5 - 0.5 * level) * spread).min())
        needed = float(p_values.min())
        if least > 0.0 and needed < 1.0 - level:
            nearest = max(needed, float(_two_sided(leads, spread, freedom).max()))
            settled = (np.arange(len(gaps)) == 0) | (place == 0)
            p_values = np.where(settled, np.minimum(p_values, nearest), p_values)
            low = np.maximum(low, least) if place == 0 else low
            high = np.where(settled & (place != 0), np.minimum(high, -least), high)
    return tuple(
        Difference(0.0, 0.0, 0.0, 1.0) if row == place else Difference(*own)
        for row, own in enumerate(
            zip(values.tolist(), low.tolist(), high.tolist(), p_values.tolist(), strict=True)
        )
    )


def _two_sided(values: Floats, errors: Floats, df: Floats) -> Floats:
    """P-values of plain t tests."""
    ratios = np.divide(values, errors, out=np.zeros_like(values), where=errors > 0.0)
    return np.asarray(2.0 * stdtr(df, -np.abs(ratios)))


def _groups(apart: Booleans) -> tuple[tuple[int, ...], ...]:
    """Largest sets without a pair that is apart: split each set that holds one, drop subsets."""
    if len(apart) > _MOST_SETS_OF:
        return _runs(apart)
    groups: list[frozenset[int]] = [frozenset(range(len(apart)))]
    for i, j in np.argwhere(np.triu(apart)).tolist():
        split = [group for group in groups if i in group and j in group]
        groups = [group for group in groups if not (i in group and j in group)]
        for part in [group - {one} for group in split for one in (i, j)]:
            if not any(part <= group for group in groups):
                groups = [group for group in groups if not group <= part] + [part]
    return tuple(sorted(tuple(sorted(group)) for group in groups))


def _runs(apart: Booleans) -> tuple[tuple[int, ...], ...]:
    """The same of very many, in time that their pairs take: only groups without gaps.

    Whatever lies between two that are not apart is in their group. So a pair may be apart and have
    a letter in common, but two without a common letter are apart, as with few.
    """
    count = len(apart)
    last = count - 1 - np.argmin(apart[:, ::-1], axis=1)  # nobody is apart from itself
    ends = np.maximum.accumulate(last)
    starts = [i for i in range(count) if i == 0 or ends[i] > ends[i - 1]]
    return tuple(tuple(range(i, int(ends[i]) + 1)) for i in starts)


def _letter(number: int) -> str:
    """A letter, with a number after the 26th: a, b, ..., z, a2, b2, ..."""
    turn, place = divmod(number, len(ascii_lowercase))
    return ascii_lowercase[place] + (str(turn + 1) if turn else "")
