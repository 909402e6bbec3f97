"""The thresholds of every claim, and one way to write numbers, shares and lists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from oodometer.finding import Verdict, less_than_one, p_value_text
from oodometer.scores import Missing, ScoreTable
from oodometer.stats.comparison import Difference

LEVEL = 0.95  # of every interval
SIGNIFICANT = 0.05  # adjusted p below which a difference is significant
FEWEST = 5  # cases without exception before "always" is claimed: fewer allow 1 in 2 exceptions
DOMINANT = 0.9  # weight above which a mixture describes one of its parts, not all
_EXACT = 9  # decimals beyond which numbers differ by the rounding of their unit only
_LEAST_END = 0.001  # of an interval in points: what is nearer to 0 is written as 0
_LEAST_WIDTH = 2.0  # of an interval, in units of the last decimal
SHOWN = 4  # cases that evidence spells out; the tables have them all


def number(value: float) -> str:
    """Write a metric with three decimals; never 1.000 for what is less than 1.

    >>> number(0.91234), number(0.99956), number(1.0)
    ('0.912', '0.9996', '1.000')
    """
    value = float(f"{value:.12g}")  # the same mean, summed otherwise, is written in the same way
    text = f"{value:.3f}"
    return less_than_one(value, 4) if text == "1.000" and value < 1 else text


def between(low: float, high: float) -> str:
    """Write the ends of an interval, with as many decimals as it takes to see that they differ.

    >>> between(0.888, 0.956), between(0.89482, 0.89513), between(0.5, 0.5)
    ('0.888 to 0.956', '0.8948 to 0.8951', '0.500 to 0.500')
    >>> between(0.99931, 0.99998)
    '0.9993 to 0.9999'
    """
    if high - low >= _LEAST_WIDTH * 1e-3 or low == high:
        return f"{number(low)} to {number(high)}"
    places = next(p for p in range(4, 10) if high - low >= _LEAST_WIDTH * 10.0**-p or p == 9)
    ends = (
        less_than_one(end, places) if abs(end) < 1 else f"{end:.{places}f}" for end in (low, high)
    )
    return " to ".join(ends)


def points_and_p(difference: Difference, *, adjusted: bool = True, are_shares: bool = True) -> str:
    """Write a difference with its interval and its p-value, of shares in hundredths.

    >>> points_and_p(Difference(0.0123, -0.004, 0.0286, 0.1))
    '+1.2 points [−0.4, +2.9], adjusted p = 0.1'
    >>> points_and_p(Difference(0.01, -math.inf, math.inf, 0.5))
    '+1.0 points, without an interval, adjusted p = 0.5'
    >>> points_and_p(Difference(0.012, -0.00012, 0.0241, 0.053))
    '+1.2 points [−0.01, +2.4], adjusted p = 0.053'
    >>> points_and_p(Difference(0.0002, -0.0001, 0.00052, 0.22))
    '+0.02 points [−0.01, +0.05], adjusted p = 0.22'
    """
    places = _places(100 * (difference.high - difference.low))
    p_value = f"{'adjusted ' * adjusted}{p_equals(difference.p_value)}"
    value, low, high = (
        write(100 * part, places) if are_shares else f"{part:+.3g}".replace("-", "−")
        for write, part in zip((_signed, _end, _end), difference[:3], strict=True)
    )
    unit = " points" if are_shares else ""
    if not math.isfinite(difference.high - difference.low):
        return f"{value}{unit}, without an interval, {p_value}"
    return f"{value}{unit} [{low}, {high}], {p_value}"


def p_equals(p_value: float) -> str:
    """Write a p-value, which is never 0.

    >>> p_equals(0.0123), p_equals(1.0), p_equals(3e-7), p_equals(0.0)
    ('p = 0.012', 'p = 1', 'p < 0.0001', 'p < 0.0001')
    """
    text = p_value_text(p_value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def points(share: float) -> str:
    """Write a difference of shares in hundredths.

    >>> points(0.0123), points(-0.2), points(-0.0001)
    ('1.2 points', '−20.0 points', '0.0 points')
    """
    return f"{hundredths(share)} points"


def hundredths(share: float) -> str:
    """Write a share in hundredths, with a sign only where it is negative.

    >>> hundredths(0.0123), hundredths(-0.2), hundredths(-0.0001)
    ('1.2', '−20.0', '0.0')
    >>> hundredths(0.9005 - 0.885), hundredths(0.0155)  # whatever is lost by subtracting
    ('1.6', '1.6')
    """
    return _unsigned_zero(f"{round(100 * share, _EXACT):.1f}")


def times_and_p(ratio: Difference) -> str:
    """Write how many times as large a score is, with its interval and its adjusted p-value.

    >>> times_and_p(Difference(2.34, 1.2, 4.56, 0.01)), times_and_p(Difference(1, 0, math.inf, 1))
    ('2.3 times as large [1.2, 4.6], adjusted p = 0.01', 'no interval')
    """
    if not math.isfinite(ratio.high) or math.isnan(ratio.value):
        return "no interval"
    value, low, high = map(_times, ratio[:3])
    return f"{value} times as large [{low}, {high}], adjusted {p_equals(ratio.p_value)}"


def _times(ratio: float) -> str:
    """Write a ratio; beyond a thousand, one of both is hardly more than a rounding error.

    >>> _times(1.0), _times(0.25), _times(64.3), _times(2e4), _times(1.6e-7)
    ('1.0', '0.25', '64', 'over 1000', 'under 0.001')
    """
    if ratio < 1e-3 or ratio >= 1e3:
        return "under 0.001" if ratio < 1 else "over 1000"
    if 0.95 <= ratio < 9.95:
        return f"{ratio:.1f}"
    return f"{ratio:.2g}" if ratio < 99.5 else f"{ratio:.0f}"


def _places(width: float) -> int:
    """How many decimals show an interval of this width: one, more only for narrow ones."""
    return 1 if not width else next((p for p in (1, 2) if width >= _LEAST_WIDTH * 10.0**-p), 3)


def _signed(value: float, places: int) -> str:
    return _unsigned_zero(f"{round(value, _EXACT):+.{places}f}")


def _end(value: float, places: int) -> str:
    """The end of an interval: on which side of 0 it lies decides, and is seen."""
    is_hidden = _LEAST_END <= abs(value) < 0.5 * 10.0**-places
    return f"{value:+.1g}".replace("-", "−") if is_hidden else _signed(value, places)


def _unsigned_zero(text: str) -> str:
    """A zero has no sign.

    >>> _unsigned_zero("-0.0"), _unsigned_zero("+0.00"), _unsigned_zero("-1.0")
    ('0.0', '0.00', '−1.0')
    """
    return text.lstrip("+-") if not text.strip("+-0.") else text.replace("-", "−")


def several(noun: str) -> str:
    """Return the plural of a noun, such as that of a column of a table.

    >>> several("data set"), several("class"), several("series")
    ('data sets', 'classes', 'series')
    """
    if noun.endswith("series"):
        return noun
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def count(many: int, singular: str, plural: str = "") -> str:
    """Write a number with its noun.

    >>> count(1, "training run"), count(9, "training run")
    ('1 training run', '9 training runs')
    """
    return f"{many} {singular if many == 1 else plural or several(singular)}"


def in_all(
    part: int, whole: int, singular: str, plural: str = "", *, preposition: str = "in"
) -> str:
    """Write a share of cases, behind "in" or another preposition.

    >>> in_all(7, 9, "run"), in_all(9, 9, "run"), in_all(0, 9, "run"), in_all(2, 2, "run")
    ('in 7 of 9 runs', 'in all 9 runs', 'in none of 9 runs', 'in both runs')
    >>> in_all(1, 1, "run"), in_all(1200, 3400, "run")
    ('in the only run', 'in 1,200 of 3,400 runs')
    """
    if whole == 1:
        return f"{'' if part else 'not '}{preposition} the only {singular}"
    return f"{preposition} {share_of(part, whole, singular, plural)}"


def share_of(part: int, whole: int, singular: str, plural: str = "") -> str:
    """Write how many there are of all.

    >>> share_of(7, 9, "run"), share_of(0, 9, "run"), share_of(2, 2, "run"), share_of(0, 1, "run")
    ('7 of 9 runs', 'none of 9 runs', 'both runs', '0 of 1 run')
    >>> share_of(0, 2, "run")
    'neither run'
    """
    if whole == 1:
        return f"{part} of 1 {singular}"
    if (part, whole) == (0, 2):
        return f"neither {singular}"
    shares = {whole: f"all {whole:,}" if whole > 2 else "both", 0: f"none of {whole:,}"}
    return f"{shares.get(part, f'{part:,} of {whole:,}')} {plural or several(singular)}"


def together(times: int) -> str:
    """Say how often a first place is shared.

    >>> together(0), together(1), together(3)
    ('', ' (once together with another)', ' (3 times together with another)')
    """
    often = "once" if times == 1 else f"{times} times"
    return f" ({often} together with another)" if times else ""


def listing(names: Sequence[str], joined: str = "and") -> str:
    """Write names as a, b and c.

    >>> listing(["knn", "vim", "energy"]), listing(["far", "near"], "or")
    ('knn, vim and energy', 'far or near')
    """
    return f" {joined} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def few(parts: Sequence[str], word: str, joined: str = "and") -> str:
    """List some, and say how many more there are.

    >>> few(["knn", "vim"], "detector"), few(list("abcdef"), "set")
    ('knn and vim', 'a, b, c, d and 2 more sets')
    """
    more = len(parts) - SHOWN
    shown = [*parts[:SHOWN], count(more, f"more {word}")] if more > 0 else list(parts)
    return listing(shown, joined)


def spelled(parts: Sequence[str], most: int = SHOWN, joined: str = "; ") -> str:
    """Write the first parts of evidence, and a sign that there are more.

    >>> spelled(["a", "b"]), spelled(list("abcdef"), joined=", ")
    ('a; b', 'a, b, c, d, …')
    """
    return joined.join([*parts[:most], "…"] if len(parts) > most else parts)


def missing_lines(missing: Sequence[Missing], runs: int) -> tuple[str, ...]:
    """Say what is missing: one line per reason, not one per run; one for all that cannot be.

    Runs that failed come first: the detectors that needed them lack nothing else.
    """
    where: dict[Missing, list[str]] = {}
    for part in missing:
        if not part.lasting:
            where.setdefault(replace(part, run="", traceback=""), []).append(part.run)
    lines = (
        str(replace(part, run=labels[0]))
        if len(labels) == 1
        else f"{str(part).rstrip('.')} (in {len(labels)} of {runs} runs)"
        for part, labels in sorted(where.items(), key=lambda item: bool(item[0].detector))
    )
    return (*lines, *not_applicable(missing, runs))


def known_data(table: ScoreTable) -> list[tuple[str, str]]:
    """The fact which data are in-distribution, unless all that is known is that they are."""
    return [] if table.id == "id" else [("in-distribution data", table.id)]


def not_applicable(missing: Sequence[Missing], runs: int) -> tuple[str, ...]:
    """Say in one line which detectors the networks do not allow, and why; none, if all do."""
    where: dict[tuple[str, str], set[str]] = {}
    for part in missing:
        if part.lasting:
            where.setdefault((part.detector, part.reason.rstrip(".")), set()).add(part.run)
    if not where:
        return ()
    named: dict[str, list[str]] = {}  # reason -> detectors
    for (detector, reason), found in where.items():
        some = f" in {len(found)} of {runs} runs" if len(found) < runs else ""
        named.setdefault(reason, []).append(f"{detector}{some}")
    parts = "; ".join(f"{listing(names)} ({reason})" for reason, names in named.items())
    return (f"Not applicable to this network: {parts}.",)


def never_otherwise(exceptions: int, cases: int, *, decided: bool = True) -> Verdict:
    """Judge what was so in all cases but some: few cases cannot show that it always is.

    Nor can cases without exception, unless `decided` says that chance is excluded: of two equal
    detectors, one is ahead in all of five runs one time in sixteen.
    """
    if exceptions:
        return "flips"
    return "holds" if decided and cases >= FEWEST else "undecided"
