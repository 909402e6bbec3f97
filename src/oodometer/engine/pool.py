"""Run tasks on this machine: a pool of processes, one torch thread each."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from oodometer.engine.plan import Plan, RunPlan
from oodometer.engine.store import FolderStore, Store
from oodometer.scores import Missing

ATTEMPTS = 3  # a task whose worker dies (out of memory, killed) is tried this often
Progress = Callable[[int, int], None]  # units of work that are done, and all of them
# Read by the numerical libraries when a worker starts: more threads than cores only hurt.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def run_pool(
    plan: Plan, todo: list[RunPlan], store: FolderStore, workers: int, progress: Progress
) -> list[Missing]:
    """Execute the runs; return what could not be done."""
    context = multiprocessing.get_context("spawn")
    missing: list[Missing] = []
    attempts = dict.fromkeys((run.label for run in todo), 0)
    waiting = list(todo)
    while waiting:
        with _one_thread_per_worker():
            pool = ProcessPoolExecutor(min(workers, len(waiting)), context, _start_worker)
            futures: dict[Future[list[Missing]], RunPlan] = {
                pool.submit(
                    _work, run, plan.study.ood, plan.named_detectors, str(store.folder)
                ): run
                for run in waiting
            }
        waiting = []
        try:
            for future in _completed(futures, todo, store, progress):
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
    todo: list[RunPlan],
    store: Store,
    progress: Progress,
) -> Iterator[Future[list[Missing]]]:
    """Yield futures as they finish, telling meanwhile how far all of them are."""
    # Progress is read off the store: a queue that workers write to would hang if one were killed
    # while it held the queue's lock.
    pending = set(futures)
    total = sum(_units(run) for run in todo)
    others = [run for run in todo if run not in futures.values()]
    while pending:
        done, pending = wait(pending, timeout=0.25, return_when=FIRST_COMPLETED)
        finished = [run for future, run in futures.items() if future not in pending] + others
        working = [futures[future] for future in pending if future.running()]
        units = sum(_units(run) for run in finished) + sum(_done(run, store) for run in working)
        progress(units, total)
        yield from done


def _units(run: RunPlan) -> int:
    return 2 + len(run.scores)


def _done(run: RunPlan, store: Store) -> int:
    """Units of a run that are in the store: the model, its outputs, each detector."""
    *_, last = run.outputs
    detectors = sum(store.has("scores", keys[last]) for keys in run.scores.values())
    extracted = store.has("outputs", run.outputs[last])
    return store.has("models", run.model) + extracted + detectors


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


def _start_worker() -> None:
    """Prepare a worker: one thread, deaf to Ctrl-C, and gone when its parent is gone."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """End this process when its parent dies: a killed runner leaves nobody behind."""
    process = multiprocessing.parent_process()
    if process is not None:
        process.join()
    os._exit(1)


def _work(
    run: RunPlan, ood: tuple[str, ...], detectors: tuple[str, ...], folder: str
) -> list[Missing]:
    from oodometer.engine.steps import execute

    return execute(run, ood, detectors, FolderStore(folder))
