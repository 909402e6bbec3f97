"""Why a network did not answer what a detector needs."""

from __future__ import annotations

from dataclasses import dataclass

from oodometer.errors import UserError


@dataclass(frozen=True)
class Refusal:
    """A need that was not answered, with the reason."""

    reason: str
    lasting: bool = True  # False: memory or a file was lacking, and the next attempt may succeed

    def __str__(self) -> str:
        return self.reason

    @classmethod
    def of(cls, problem: BaseException) -> Refusal:
        """The refusal that an error, or its cause, amounts to."""
        return cls(str(problem), lasting=not _is_passing(problem.__cause__ or problem))


def _is_passing(problem: BaseException) -> bool:
    if isinstance(problem, RuntimeError):  # PyTorch raises no other when memory is short
        return any(words in str(problem) for words in ("allocate", "out of memory"))
    return isinstance(problem, MemoryError | OSError)


class RefusedError(UserError):
    """The network or the data do not allow what a detector reads, and never will."""

    def __init__(self, sentence: str, why: str) -> None:
        super().__init__(f"{sentence}: {why}")
        self.why = why
