"""Several questions on one page: each is a family of tests, and together they keep one level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from oodometer.finding import Claim
from oodometer.protocols.common.comparisons import Comparison
from oodometer.stats.comparison import Difference, Name, holm, with_p_values


@dataclass(frozen=True, eq=False)
class Asked:
    """One question: its p-values, and how to answer it once they are adjusted for the page."""

    p_values: Sequence[float]  # adjusted within the question
    tell: Callable[[Sequence[float]], list[Claim]]
    overall: float | None = None  # p-value of it as a whole, such as of the mean over detectors
    short: Callable[[Sequence[float]], str] | None = None  # the same as one would say it

    @property
    def p_value(self) -> float:
        """The chance that so much would be found if there were nothing to find."""
        smallest = min(self.p_values, default=1.0)
        return smallest if self.overall is None else min(1.0, 2.0 * min(smallest, self.overall))


class Answers(NamedTuple):
    """What is told of all questions, and what one would say who was asked."""

    claims: tuple[Claim, ...]
    short: str


def answers(asked: Sequence[Asked]) -> Answers:
    """Answer all questions: one is opened if there is something to find, by Holm's method for all.

    If there is nothing at all to find, any claim that something is significant errs on 5% of
    pages at most, however many questions they ask. Within a question that is opened, p-values are
    as they are adjusted there: they err in 5% of such questions at most.
    """
    opened = holm([question.p_value for question in asked]).tolist()
    adjusted = [
        (question, [max(p_value, least) for p_value in question.p_values])
        for question, least in zip(asked, opened, strict=True)
    ]
    said = (question.short(p_values) for question, p_values in adjusted if question.short)
    return Answers(
        tuple(claim for question, p_values in adjusted for claim in question.tell(p_values)),
        " ".join(filter(None, said)),
    )


def about_differences(
    found: Mapping[Name, Difference],
    tell: Callable[[dict[Name, Difference]], list[Claim]],
    overall: float | None = None,
    short: Callable[[dict[Name, Difference]], str] | None = None,
) -> list[Asked]:
    """Ask about differences by name; none without any."""
    if not found:
        return []
    return [
        Asked(
            [d.p_value for d in found.values()],
            lambda p_values: tell(with_p_values(found, p_values)),
            overall,
            short and (lambda p_values: short(with_p_values(found, p_values))),
        )
    ]


def about_comparisons(
    comparisons: Sequence[Comparison],
    tell: Callable[[list[Comparison]], list[Claim]],
    short: Callable[[list[Comparison]], str] | None = None,
) -> list[Asked]:
    """Ask who is best where."""
    if not comparisons:
        return []

    def adjusted(p_values: Sequence[float]) -> list[Comparison]:
        given = iter(p_values)
        leads = [with_p_values(one.leads, [next(given) for _ in one.leads]) for one in comparisons]
        return [replace(one, leads=own) for one, own in zip(comparisons, leads, strict=True)]

    return [
        Asked(
            [lead.p_value for one in comparisons for lead in one.leads.values()],
            lambda p_values: tell(adjusted(p_values)),
            short=short and (lambda p_values: short(adjusted(p_values))),
        )
    ]
