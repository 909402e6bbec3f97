"""Execute tasks on a Ray cluster; a node that is lost takes only its tasks along."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

from oodometer.engine.executors import Ended, Task
from oodometer.engine.executors.pool import processor_seconds
from oodometer.engine.executors.worker import ENVIRONMENT, SECONDS_BETWEEN_BEATS, Answer, call
from oodometer.errors import UserError

SECONDS_PER_TICK = 1.0
MOST_CANCELLATIONS = 10  # of one task
SILENT_TICKS = 20  # see the pool: a worker that is silent for so long is stopped


class Cluster:
    """Tasks of Ray: Ray finds them a node with the resources that they ask for."""

    def __init__(
        self, address: str, *, most: int | None = None, silent_ticks: int = SILENT_TICKS
    ) -> None:
        """`address` is "local" (a cluster of this machine alone), "auto", or where one is.

        `most` tasks at a time; by default, as many as the cluster has CPUs.
        """
        self._ray = _import_ray()
        self._own = not self._ray.is_initialized()
        if self._own:
            _connect(self._ray, address, most)
        self._most, self._silent_ticks = most, silent_ticks
        self._remote = self._ray.remote(_call_there)
        self._pulse = self._ray.remote(_Pulse).options(num_cpus=0, max_restarts=-1).remote()
        self._reading: Any = None
        self._tasks: dict[Any, Task] = {}  # by the reference to its answer
        self._heard: dict[str, tuple[int, int]] = {}  # task -> beats, ticks without a new one
        self._last_tick = time.monotonic()
        self._groups: deque[str] = deque(maxlen=64)  # done lately: their workers still know them
        self.slots = self._count_slots()

    def idle(self) -> list[str]:
        """As many as there are free CPUs; first the groups that were done lately."""
        free = max(0, self.slots - len(self._tasks))
        recent = [self._groups.popleft() for _ in range(min(free, len(self._groups)))]
        return recent + [""] * (free - len(recent))

    def submit(self, task: Task) -> None:
        """Hand a task to Ray."""
        needs = task.resources
        limits = self._largest_node()
        if needs.gpus and not limits.get("GPU"):
            raise UserError("No node of the Ray cluster has a GPU: leave --device out.")
        options = {
            "max_retries": 0,
            "num_cpus": needs.cpus,
            "num_gpus": needs.gpus,
            # More than the largest node has would wait for ever.
            "memory": min(needs.memory, int(limits.get("memory", 0))) or None,
        }
        given = (self._pulse, task.name, task.function, task.arguments)
        self._tasks[self._remote.options(**options).remote(*given)] = task

    def wait(self, seconds: float) -> list[Ended]:
        """Return what ended; meanwhile, watch whether the workers are alive."""
        self._tick()
        if not self._tasks:
            time.sleep(min(seconds, SECONDS_PER_TICK))
            return []
        references = list(self._tasks)
        first, _ = self._ray.wait(references, timeout=seconds)
        if not first:
            return []
        ready, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
        return [self._end(reference) for reference in ready]

    def cancel(self, name: str) -> None:
        """Take a task back, by force; Ray misses one that is about to begin, so ask again."""
        for reference in [r for r, task in self._tasks.items() if task.name == name]:
            del self._tasks[reference]
            for _ in range(MOST_CANCELLATIONS):
                self._take_back(reference)
                if self._ray.wait([reference], timeout=SECONDS_PER_TICK)[0]:
                    break

    def close(self) -> None:
        """Take all tasks back and leave the cluster; end it, if it is our own."""
        for reference in self._tasks:
            self._take_back(reference)
        self._tasks.clear()
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(self._pulse)
        if self._own:
            self._ray.shutdown()

    def _take_back(self, reference: Any) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.cancel(reference, force=True)

    def _count_slots(self) -> int:
        found = int(self._ray.cluster_resources().get("CPU", 0)) or 1
        return min(found, self._most) if self._most else found

    def _largest_node(self) -> dict[str, float]:
        largest: dict[str, float] = {}
        for node in self._ray.nodes():
            if node["Alive"]:
                for name in ("memory", "GPU"):
                    amount = node["Resources"].get(name, 0)
                    largest[name] = max(amount, largest.get(name, 0))
        return largest

    def _end(self, reference: Any) -> Ended:
        task = self._tasks.pop(reference)
        self._heard.pop(task.name, None)
        errors = self._ray.exceptions
        try:
            answer: Answer = self._ray.get(reference)
        except errors.RayTaskError as problem:
            words = str(problem).strip().splitlines() or [type(problem).__name__]
            return Ended(task, error=words[-1], traceback=str(problem))
        except errors.RayError as problem:
            words = str(problem).strip().splitlines() or [""]
            return Ended(task, lost=f"{type(problem).__name__}: {words[0]}", outside=True)
        self._groups.append(task.group)
        return Ended(task, **answer)

    def _tick(self) -> None:
        """Count one tick at most, however long ago the last one was; see what workers tell."""
        if time.monotonic() - self._last_tick < SECONDS_PER_TICK:
            return
        self._last_tick = time.monotonic()
        self.slots = self._count_slots()
        if self._reading is None:
            self._reading = self._pulse.read.remote()
        ready, _ = self._ray.wait([self._reading], timeout=0)
        if not ready:
            return
        try:
            beats: dict[str, tuple[int, str, int]] = self._ray.get(self._reading)
        except self._ray.exceptions.RayError:
            beats = {}  # it was on a lost node, and will be on another
        self._reading = None
        names = {task.name for task in self._tasks.values()}
        for name, (count, node, process) in beats.items():
            if name not in names:
                continue
            before, silent = self._heard.get(name, (0, 0))
            silent = 0 if count != before else silent + 1
            self._heard[name] = count, silent
            if silent >= self._silent_ticks:
                self._heard[name] = count, 0
                self._end_if_stopped(node, process)

    def _end_if_stopped(self, node: str, process: int) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        place = NodeAffinitySchedulingStrategy(node, soft=False)
        there = self._ray.remote(_end_if_stopped)
        there.options(num_cpus=0, max_retries=0, scheduling_strategy=place).remote(process)


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray
    except ImportError:
        raise UserError(
            "--cluster needs Ray, which is not installed: pip install 'oodometer[cluster]'."
        ) from None
    return ray


def _connect(ray: Any, address: str, most: int | None) -> None:
    quiet = {
        "configure_logging": False,
        "log_to_driver": False,
        "logging_level": logging.ERROR,
        "runtime_env": {"env_vars": dict(ENVIRONMENT)},
    }
    if address == "local":
        quiet |= {"num_cpus": most, "include_dashboard": False}
    logging.getLogger("ray").setLevel(logging.ERROR)
    _require_listener(address)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, RuntimeError, OSError) as problem:
        words = " ".join(str(problem).split())
        raise UserError(f"No Ray cluster at '{address}': {words}") from None


def _require_listener(address: str) -> None:
    """Say at once that nobody is there: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address in ("auto", "local"):
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except ValueError:
        raise UserError(
            f"--cluster is '{address}', but must be auto, local, or an address such as "
            "10.0.0.1:6379."
        ) from None
    except OSError as problem:
        words = problem.strerror or str(problem)
        raise UserError(f"No Ray cluster at '{address}': {words}.") from None


class _Pulse:
    """Collects, somewhere in the cluster, which tasks are alive."""

    def __init__(self) -> None:
        self._beats: dict[str, tuple[int, str, int]] = {}

    def beat(self, name: str, node: str, process: int) -> None:
        """Note that a task is alive."""
        self._beats[name] = self._beats.get(name, (0, "", 0))[0] + 1, node, process

    def end(self, name: str) -> None:
        """Forget a task."""
        self._beats.pop(name, None)

    def read(self) -> dict[str, tuple[int, str, int]]:
        """For each task: how many beats, and where it is."""
        return dict(self._beats)


def _call_there(
    pulse: Any, name: str, function: Callable[..., object], arguments: tuple[object, ...]
) -> Answer:
    """Call a function on a node, and tell meanwhile that it is alive."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    over = threading.Event()

    def beat() -> None:
        while not over.wait(SECONDS_BETWEEN_BEATS):
            with contextlib.suppress(ray.exceptions.RayError):
                pulse.beat.remote(name, node, os.getpid())

    with contextlib.suppress(ray.exceptions.RayError):
        # The first beat arrives before the work begins: who was never heard cannot be missed.
        ray.wait([pulse.beat.remote(name, node, os.getpid())], timeout=60)
    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        return call(function, arguments)
    finally:
        over.set()
        thread.join()
        with contextlib.suppress(ray.exceptions.RayError):
            pulse.end.remote(name)


def _end_if_stopped(process: int) -> None:
    """End a process of this node, unless it is at work and only cannot tell."""
    before = processor_seconds(process)
    time.sleep(2)
    if processor_seconds(process) == before:
        os.kill(process, signal.SIGKILL)
