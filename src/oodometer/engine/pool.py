"""Run tasks on this machine: a pool of processes, one torch thread each."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TYPE_CHECKING

from oodometer.engine.plan import Plan, RunPlan
from oodometer.engine.store import FolderStore
from oodometer.scores import Missing

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

ATTEMPTS = 3  # a task whose worker dies (out of memory, killed) is tried this often
# Read by the numerical libraries when a worker starts: more threads than cores only hurt.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_events: Queue[str]  # set in each worker when it starts


def run_pool(
    plan: Plan,
    todo: list[RunPlan],
    store: FolderStore,
    workers: int,
    progress: Callable[[str], None],
) -> list[Missing]:
    """Execute the runs; return what could not be done. `progress` hears of each finished unit."""
    context = multiprocessing.get_context("spawn")
    events: Queue[str] = context.Queue()
    missing: list[Missing] = []
    attempts = dict.fromkeys((run.label for run in todo), 0)
    waiting = list(todo)
    while waiting:
        with _one_thread_per_worker():
            pool = ProcessPoolExecutor(
                min(workers, len(waiting)), context, _start_worker, (events, os.getpid())
            )
            futures: dict[Future[list[Missing]], RunPlan] = {
                pool.submit(
                    _work, run, plan.study.ood, plan.named_detectors, str(store.folder)
                ): run
                for run in waiting
            }
        waiting = []
        try:
            for future in _completed(futures, events, progress):
                run = futures[future]
                try:
                    missing += future.result()
                except BrokenProcessPool:
                    attempts[run.label] += 1
                    if attempts[run.label] < ATTEMPTS:
                        waiting.append(run)
                    else:
                        reason = f"its worker died {ATTEMPTS} times, perhaps for lack of memory"
                        missing.append(Missing(reason, run=run.label))
        except BaseException:
            _stop(pool)
            raise
        pool.shutdown()
    return missing


def _completed(
    futures: dict[Future[list[Missing]], RunPlan],
    events: Queue[str],
    progress: Callable[[str], None],
) -> Iterator[Future[list[Missing]]]:
    """Yield futures as they finish, passing on what workers tell meanwhile."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=0.1, return_when=FIRST_COMPLETED)
        while True:
            try:
                progress(events.get_nowait())
            except queue.Empty:
                break
        yield from done


def _stop(pool: ProcessPoolExecutor) -> None:
    """End all workers at once; what they had not saved whole does not count."""
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()


@contextmanager
def _one_thread_per_worker() -> Iterator[None]:
    """Give workers their environment; this process keeps its own."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _start_worker(events: Queue[str], parent: int) -> None:
    """Prepare a worker: one thread, deaf to Ctrl-C, and gone when its parent is gone."""
    global _events
    import torch

    _events = events
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    guard = threading.Thread(target=_leave_with_parent, args=(parent,), daemon=True)
    guard.start()


def _leave_with_parent(parent: int) -> None:
    """End this process when its parent dies: a killed runner leaves nobody behind."""
    process = multiprocessing.parent_process()
    if process is not None:
        process.join()
    os._exit(1)


def _work(
    run: RunPlan, ood: tuple[str, ...], detectors: tuple[str, ...], folder: str
) -> list[Missing]:
    from oodometer.engine.steps import execute

    return execute(run, ood, detectors, FolderStore(folder), _events.put)
