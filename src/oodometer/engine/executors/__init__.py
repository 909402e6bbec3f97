"""Where tasks are executed: one contract, kept by this process, a pool of processes, and Ray.

An executor knows nothing about studies. It takes tasks while it has room, and tells how they
ended: with a value, by a fault of their own, or lost with their worker. It never tries a task
again; whoever submitted it decides that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Resources:
    """What a task asks for while it runs."""

    cpus: float = 1.0
    memory: int = 0  # bytes, estimated; 0: not known
    gpus: float = 0.0  # a share of one, or several


@dataclass(frozen=True)
class Task:
    """A function and its arguments; both must be such that another process can import them."""

    name: str  # of its own among all tasks that are under way
    function: Callable[..., object]
    arguments: tuple[object, ...] = ()
    resources: Resources = field(default_factory=Resources)
    group: str = ""  # tasks of a group share what they load: one worker does them best


@dataclass(frozen=True)
class Ended:
    """How a task ended: with `value`, by its own fault (`error`), or with its worker (`lost`)."""

    task: Task
    value: object = None
    error: str = ""
    traceback: str = ""
    lost: str = ""
    outside: bool = False  # lost by a cause outside: killed, stopped, or its machine is gone
    seconds: float = 0.0  # that it worked


class Executor(Protocol):
    """Executes tasks, several at a time."""

    slots: int  # tasks at a time

    def idle(self) -> list[str]:
        """One entry for each task that could start now: the group that this worker did last."""
        ...

    def submit(self, task: Task) -> None:
        """Start a task; only while somebody is idle."""
        ...

    def wait(self, seconds: float) -> list[Ended]:
        """Return the tasks that ended, as soon as there are any; none after this many seconds."""
        ...

    def cancel(self, name: str) -> None:
        """Give a task up: nothing more will be heard of it. Unknown names do not matter."""
        ...

    def close(self) -> None:
        """Give everything up, and leave no process behind."""
        ...
