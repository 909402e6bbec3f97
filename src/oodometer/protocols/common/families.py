"""Several questions on one page: each is a family of tests, and together they keep one level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from oodometer.finding import Claim
from oodometer.protocols.common.comparisons import Comparison
from oodometer.stats.comparison import Difference, Name, holm, with_p_values


@dataclass(frozen=True, eq=False)
class Asked:
    """One question: its p-values, and how to answer it once they are adjusted for the page."""

    p_values: Sequence[float]  # adjusted within the question
    tell: Callable[[Sequence[float]], list[Claim]]
    overall: float | None = None  # p-value of it as a whole, such as of the mean over detectors

    @property
    def p_value(self) -> float:
        """The chance that so much would be found if there were nothing to find."""
        smallest = min(self.p_values, default=1.0)
        return smallest if self.overall is None else min(1.0, 2.0 * min(smallest, self.overall))


def answers(asked: Sequence[Asked]) -> tuple[Claim, ...]:
    """Answer all questions: one is opened if there is something to find, by Holm's method for all.

    If there is nothing at all to find, any claim that something is significant errs on 5% of
    pages at most, however many questions they ask. Within a question that is opened, p-values are
    as they are adjusted there: they err in 5% of such questions at most.
    """
    opened = holm([question.p_value for question in asked]).tolist()
    return tuple(
        claim
        for question, least in zip(asked, opened, strict=True)
        for claim in question.tell([max(p_value, least) for p_value in question.p_values])
    )


def about_differences(
    found: Mapping[Name, Difference],
    tell: Callable[[dict[Name, Difference]], list[Claim]],
    overall: float | None = None,
) -> list[Asked]:
    """Ask about differences by name; none without any."""

    def tell_adjusted(p_values: Sequence[float]) -> list[Claim]:
        return tell(with_p_values(found, p_values))

    return [Asked([d.p_value for d in found.values()], tell_adjusted, overall)] if found else []


def about_comparisons(
    comparisons: Sequence[Comparison], tell: Callable[[list[Comparison]], list[Claim]]
) -> list[Asked]:
    """Ask who is best where."""

    def tell_adjusted(p_values: Sequence[float]) -> list[Claim]:
        given = iter(p_values)
        adjusted = [
            with_p_values(one.leads, [next(given) for _ in one.leads]) for one in comparisons
        ]
        return tell([replace(one, leads=a) for one, a in zip(comparisons, adjusted, strict=True)])

    p_values = [lead.p_value for one in comparisons for lead in one.leads.values()]
    return [Asked(p_values, tell_adjusted)] if comparisons else []
