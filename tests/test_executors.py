"""One contract over every executor: in this process, in a pool of processes, on Ray."""

from __future__ import annotations

import importlib
import math
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torture
from test_engine_searches import kept, make_study, planned

import oodometer
from oodometer.engine.executors import Ended, Executor, Resources, Task
from oodometer.engine.executors.in_process import InProcess
from oodometer.engine.executors.pool import Pool, processor_seconds
from oodometer.engine.lead.run import run_study
from oodometer.engine.stores import FolderStore, MemoryStore
from oodometer.engine.upkeep.watch import Progress
from oodometer.errors import UserError
from oodometer.study import load_study

until = torture.until
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def tasks():
    """The functions that workers execute, importable in this process and in theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        patch.setenv("PYTHONPATH", str(HERE))
        yield importlib.import_module("executor_tasks")


@pytest.fixture(scope="module")
def ray_nodes(tasks):
    """A Ray cluster of two nodes on this machine, to which nodes can be added."""
    pytest.importorskip("ray")
    from oodometer.engine.executors.cluster import _import_ray

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Other programs may fill the memory of this machine or take its time: not tested here.
        patch.setenv("RAY_memory_monitor_refresh_ms", "0")
        patch.setenv("RAY_gcs_server_request_timeout_seconds", "600")
        _import_ray()
        from ray.cluster_utils import Cluster as Nodes

        wait = Nodes._wait_for_node
        patch.setattr(Nodes, "_wait_for_node", lambda *given: wait(*given, torture.PATIENCE))
        head = {"num_cpus": 1, "include_dashboard": False}
        nodes = Nodes(initialize_head=True, head_node_args=head)
        nodes.add_node(num_cpus=1)
        yield nodes
        nodes.shutdown()


@pytest.fixture(scope="module")
def ray_cluster(ray_nodes):
    from oodometer.engine.executors.cluster import Cluster

    cluster = Cluster(ray_nodes.address)
    until(lambda: cluster.wait(0.1) or cluster.slots == 2)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def pool(tasks):
    pool = Pool(2)
    yield pool
    pool.close()


@pytest.fixture(params=["in process", "pool", "ray"])
def executor(request, tasks) -> Executor:
    if request.param == "in process":
        return InProcess()
    return request.getfixturevalue("pool" if request.param == "pool" else "ray_cluster")


def run_all(executor: Executor, tasks: list[Task]) -> dict[str, Ended]:
    """Execute tasks in order, as many at a time as there is room for; return how they ended."""
    waiting, ended = list(tasks), {}
    deadline = time.monotonic() + torture.PATIENCE
    while len(ended) < len(tasks):
        assert time.monotonic() < deadline, f"only {sorted(ended)} ended"
        for _ in executor.idle():
            if waiting:
                executor.submit(waiting.pop(0))
        for end in executor.wait(0.1):
            assert end.task.name not in ended, "a task ends once"
            ended[end.task.name] = end
    return ended


def rest(executor: Executor, number: int) -> list[Ended]:
    """Wait until so many of the tasks that were submitted have ended."""
    found: list[Ended] = []
    until(lambda: found.extend(executor.wait(0.1)) or len(found) >= number)
    return found


def whoever_is_in(folder: Path) -> int:
    """Wait until a task tells in this folder that it is at work; return its process."""
    until(lambda: list(folder.glob("*.here")))
    return int(next(folder.glob("*.here")).suffixes[0][1:])


# ---- what all of them promise -------------------------------------------------------------------


def test_every_task_ends_with_its_own_value(executor, tasks):
    ended = run_all(executor, [Task(str(n), tasks.add, (n, 1)) for n in range(12)])
    assert {name: end.value for name, end in ended.items()} == {str(n): n + 1 for n in range(12)}
    assert not any(end.error or end.lost for end in ended.values())
    assert all(end.seconds >= 0 for end in ended.values())
    assert len(executor.idle()) == executor.slots


def test_a_fault_of_a_task_is_told_and_the_others_go_on(executor, tasks):
    ended = run_all(
        executor,
        [
            Task("before", tasks.add, (1, 1)),
            Task("bad", tasks.fail, ("on purpose",)),
            Task("exit", tasks.leave, (3,)),
            Task("after", tasks.add, (2, 2)),
        ],
    )
    assert ended["bad"].error == "ValueError: on purpose" and not ended["bad"].lost
    assert "executor_tasks.py" in ended["bad"].traceback
    assert ended["exit"].error == "SystemExit: 3"
    assert ended["before"].value == 2 and ended["after"].value == 4


def test_a_task_that_was_not_begun_can_be_cancelled(executor, tasks, tmp_path):
    go = tmp_path / "go"
    executor.submit(Task("given up", tasks.wait_for, (str(go),)))
    executor.cancel("given up")
    executor.cancel("never heard of")
    ended = run_all(executor, [Task("next", tasks.add, (1, 2))])
    assert ended["next"].value == 3
    assert executor.wait(0.0) == []


def test_tasks_ask_for_resources(executor, tasks):
    needs = Resources(cpus=1, memory=2**20)
    ended = run_all(executor, [Task(str(n), tasks.add, (n, n), needs) for n in range(3)])
    assert [ended[str(n)].value for n in range(3)] == [0, 2, 4]


# ---- what those with processes of their own promise ---------------------------------------------


@pytest.fixture(params=["pool", "ray"])
def spread(request, tasks) -> Executor:
    return request.getfixturevalue("pool" if request.param == "pool" else "ray_cluster")


def test_tasks_run_at_the_same_time_and_end_in_any_order(spread, tasks, tmp_path):
    slow, quick = tmp_path / "slow", tmp_path / "quick"
    spread.submit(Task("slow", tasks.wait_for, (str(slow),)))
    spread.submit(Task("quick", tasks.wait_for, (str(quick),)))
    assert spread.idle() == []
    until(lambda: len(list(tmp_path.glob("*.here"))) == 2)
    quick.write_text("")
    (first,) = rest(spread, 1)
    slow.write_text("")
    (second,) = rest(spread, 1)
    assert (first.task.name, second.task.name) == ("quick", "slow")
    assert first.value != second.value != os.getpid()


def test_a_dead_worker_takes_only_its_task_along(spread, tasks, tmp_path):
    crash = Task("crash", tasks.crash_first, (str(tmp_path), signal.SIGKILL))
    ended = run_all(spread, [crash, *(Task(str(n), tasks.add, (n, 1)) for n in range(4))])
    assert ended["crash"].lost and ended["crash"].outside and not ended["crash"].error
    assert all(ended[str(n)].value == n + 1 for n in range(4))
    assert run_all(spread, [crash])["crash"].value == "second time"


def test_a_stopped_worker_is_replaced(spread, tasks, tmp_path, monkeypatch):
    stop = Task("stop", tasks.stop_first, (str(tmp_path),))
    spread.submit(stop)
    assert run_all(spread, [Task("other", tasks.add, (1, 1))])["other"].value == 2
    with monkeypatch.context() as patch:  # only now: on a slow machine all are silent for a while
        patch.setattr(spread, "_silent_ticks", 4)
        (ended,) = rest(spread, 1)
    assert ended.task is stop and ended.lost and ended.outside
    assert run_all(spread, [stop])["stop"].value == "second time"
    number = int((tmp_path / "was here").read_text())
    until(lambda: torture.is_gone(number))


def test_a_running_task_can_be_cancelled(spread, tasks, tmp_path):
    spread.submit(Task("endless", tasks.wait_for, (str(tmp_path / "never"),)))
    number = whoever_is_in(tmp_path)
    spread.cancel("endless")
    until(lambda: torture.is_gone(number))
    assert run_all(spread, [Task("next", tasks.add, (1, 1))])["next"].value == 2
    assert len(spread.idle()) == spread.slots


def test_a_cancellation_that_ray_missed_is_repeated(ray_cluster, tasks, tmp_path, monkeypatch):
    take_back, asked = ray_cluster._take_back, []

    def miss_the_first(reference):
        asked.append(reference)
        if len(asked) > 1:
            take_back(reference)

    ray_cluster.submit(Task("endless", tasks.wait_for, (str(tmp_path / "never"),)))
    number = whoever_is_in(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(ray_cluster, "_take_back", miss_the_first)
        ray_cluster.cancel("endless")
    until(lambda: torture.is_gone(number))
    assert len(asked) == 2


def test_what_cannot_be_sent_is_a_fault_of_the_task(pool, tasks):
    ended = run_all(
        pool,
        [
            Task("value", tasks.unsendable),
            Task("argument", tasks.add, (lambda: None, 1)),
            Task("large", tasks.large, (2**22,)),
            Task("fine", tasks.add, (1, 1)),
        ],
    )
    assert "pickle" in ended["value"].error.lower() and "pickle" in ended["argument"].error.lower()
    assert len(ended["large"].value) == 2**22 and ended["fine"].value == 2


# ---- the pool -----------------------------------------------------------------------------------


def test_a_crash_is_told_from_a_kill(pool, tasks, tmp_path):
    ended = run_all(pool, [Task("crash", tasks.crash_first, (str(tmp_path), signal.SIGABRT))])
    assert ended["crash"].lost == f"signal {int(signal.SIGABRT)}" and not ended["crash"].outside


def test_a_worker_goes_on_with_its_group(pool, tasks, tmp_path):
    go = tmp_path / "go"
    go.write_text("")
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    pool.submit(Task("a1", tasks.wait_for, (a,), group="a"))
    pool.submit(Task("b1", tasks.wait_for, (b,), group="b"))
    first: dict[str, object] = {}
    Path(a).write_text("")
    Path(b).write_text("")
    until(lambda: first.update({e.task.group: e.value for e in pool.wait(0.1)}) or len(first) == 2)
    assert sorted(pool.idle()) == ["a", "b"]
    for _ in range(2):
        again = run_all(pool, [Task("a2", tasks.wait_for, (str(go),), group="a")])
        assert again["a2"].value == first["a"]


def test_a_worker_that_works_without_a_word_is_left_alone(pool, tasks, tmp_path, monkeypatch):
    """A call that lets no other thread run must not be mistaken for a stopped process."""
    go = tmp_path / "go"
    pool.submit(Task("spin", tasks.spin, (str(go),)))
    number = whoever_is_in(tmp_path)
    (worker,) = [worker for worker in pool._workers if worker.task is not None]
    with monkeypatch.context() as patch:
        patch.setattr(pool, "_silent_ticks", 4)
        for _ in range(12):
            used = processor_seconds(number)
            until(lambda used=used: processor_seconds(number) != used)
            worker._known_beats = worker._beats  # as if it had never been heard
            pool._last_tick = -math.inf
            assert pool.wait(0.0) == []
    go.write_text("")
    assert rest(pool, 1)[0].value == "done"


def test_a_runner_that_was_stopped_kills_nobody(pool, tasks, tmp_path, monkeypatch):
    """Time in which the runner itself stood still does not count against its workers."""
    ahead = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead[0])
    go = tmp_path / "go"
    pool.submit(Task("wait", tasks.wait_for, (str(go),)))
    number = whoever_is_in(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("oodometer.engine.executors.pool.time", clock)
        patch.setattr(pool, "_last_tick", pool._last_tick)  # set back with the clock
        os.kill(number, signal.SIGSTOP)
        ahead[0] = 3600.0  # as a laptop that is closed for an hour stops both
        assert pool.wait(0.0) == []
        os.kill(number, signal.SIGCONT)
        assert pool.wait(0.3) == []
    go.write_text("")
    (ended,) = rest(pool, 1)
    assert ended.value == number and not ended.lost


@pytest.mark.parametrize("name", ["interrupt", "exit", "own"])
def test_whatever_a_task_raises_is_its_answer(pool, tasks, capfd, name):
    pool.submit(Task("leave", tasks.leave_by, (name,)))
    (ended,) = rest(pool, 1)
    assert name in ended.error and not ended.lost
    assert "Traceback" not in capfd.readouterr().err


def test_ctrl_c_does_not_reach_the_workers(pool, tasks, tmp_path):
    go = tmp_path / "go"
    pool.submit(Task("wait", tasks.wait_for, (str(go),)))
    os.kill(whoever_is_in(tmp_path), signal.SIGINT)
    assert pool.wait(0.3) == []
    go.write_text("")
    (ended,) = rest(pool, 1)
    assert not ended.lost


def test_ctrl_c_does_not_reach_the_first_worker_of_a_program_either():
    """It is started together with a helper process of the standard library."""
    program = (
        "from pathlib import Path\n"
        "from oodometer.engine.executors.pool import Pool\n"
        "if __name__ == '__main__':\n"
        "    pool = Pool(1, start=1)\n"
        "    status = Path(f'/proc/{pool._workers[0].process.pid}/status').read_text()\n"
        "    print(status.partition('SigBlk:')[2].split()[0])\n"
        "    pool.close()\n"
    )
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not tell which signals a process blocks")
    blocked = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert int(blocked, 16) & 1 << (signal.SIGINT - 1)


_ENDINGS = {
    "never closed": "    sys.exit(3)\n",
    "stopped while it closes": (
        "    first = pool._workers[0]\n"
        "    end, first.end = first.end, lambda: setattr(first, 'end', end) or sys.exit(3)\n"
        "    try:\n"
        "        pool.close()\n"
        "    finally:\n"
        "        assert not pool._workers and not multiprocessing.active_children()\n"
    ),
}


@pytest.mark.parametrize("ending", _ENDINGS)
def test_a_program_ends_with_its_workers_also_if_it_is_stopped_while_it_closes(ending):
    """A signal raises anywhere; Python would wait for ever for a worker that was not ended."""
    program = (
        "import multiprocessing, sys\n"
        "from oodometer.engine.executors.pool import Pool\n"
        "if __name__ == '__main__':\n"
        "    pool = Pool(2, start=2)\n"
        "    print(*(worker.process.pid for worker in pool._workers), flush=True)\n"
    ) + _ENDINGS[ending]
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=torture.PATIENCE,
        env={**os.environ, "PYTHONPATH": str(Path(oodometer.__file__).parents[1])},
    )
    assert ended.returncode == 3, ended.stderr
    workers = [int(number) for number in ended.stdout.split()]
    assert len(workers) == 2 and all(torture.is_gone(worker) for worker in workers)


# ---- Ray ----------------------------------------------------------------------------------------


def test_a_lost_node_takes_only_its_tasks_along(ray_nodes, ray_cluster, tasks, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        third = ray_nodes.add_node(num_cpus=1)
    until(lambda: ray_cluster.wait(0.1) or ray_cluster.slots == 3)
    go = tmp_path / "go"
    for name in "abc":
        ray_cluster.submit(Task(name, tasks.wait_for, (str(go),)))
    until(lambda: len(list(tmp_path.glob("*.here"))) == 3)
    ray_nodes.remove_node(third, allow_graceful=False)
    ended: list[Ended] = []
    until(lambda: ended or ended.extend(ray_cluster.wait(0.1)))
    assert len(ended) == 1 and ended[0].lost and ended[0].outside
    go.write_text("")
    ended += rest(ray_cluster, 2)
    assert sorted(end.task.name for end in ended) == ["a", "b", "c"]
    assert sum(bool(end.lost) for end in ended) == 1
    until(lambda: ray_cluster.wait(0.1) or ray_cluster.slots == 2)


def test_a_study_on_ray_gives_the_same_bytes_though_a_node_is_lost(
    ray_nodes, ray_cluster, tmp_path
):
    study = load_study(torture.write_study(tmp_path, 6, ["energy", "knn(k=3)"], epochs=4))
    run_study(study, FolderStore(tmp_path / "here"), executor=InProcess())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        node = ray_nodes.add_node(num_cpus=1)
    until(lambda: ray_cluster.wait(0.1) or ray_cluster.slots == 3)
    lost: list[bool] = []

    def lose_it(state: Progress) -> None:
        if not lost and state.train[0]:
            lost.append(ray_nodes.remove_node(node, allow_graceful=False))

    there = FolderStore(tmp_path / "there")
    outcome = run_study(study, there, executor=ray_cluster, progress=lose_it)
    assert lost and not outcome.missing
    assert torture.content(there.folder) == torture.content(tmp_path / "here")


def test_searches_and_detector_models_on_ray_give_the_same_bytes(ray_cluster, stripes, tmp_path):
    autoencoder = "reconstruction_error(loss=mse, architecture=od_test)"
    study = make_study(
        stripes, detectors=["max_softmax", autoencoder], ood=["inverted"], factors=[],
        searches={"variations": ["affine"], "steps": 2, "images": 4, "repeats": 2},
    )  # fmt: skip
    here, there = MemoryStore(), FolderStore(tmp_path / "there")
    run_study(study, here)
    assert not run_study(study, there, executor=ray_cluster).missing
    assert kept(there, planned(study)) == kept(here, planned(study))


@pytest.mark.parametrize("address", ["atuo", "127.0.0.1:1", "host:port", "ray://127.0.0.1:1", ""])
def test_a_cluster_that_is_not_there_is_told_at_once(address):
    from oodometer.engine.executors.cluster import _require_listener

    sentence = "No Ray cluster at|must be auto, local, or an address"
    with pytest.raises(UserError, match=sentence):
        _require_listener(address)


def test_without_ray_one_sentence_names_the_extra(monkeypatch):
    from oodometer.engine.executors.cluster import Cluster

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"--cluster needs Ray.*oodometer\[cluster\]"):
        Cluster("local")
