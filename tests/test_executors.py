"""One contract over every executor: in this process, in a pool of processes, on Ray."""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from oodometer.engine.executors import Ended, Executor, Resources, Task
from oodometer.engine.executors.in_process import InProcess
from oodometer.engine.executors.pool import Pool
from oodometer.engine.run import run_study
from oodometer.engine.runner import Progress
from oodometer.engine.store import FolderStore
from oodometer.errors import UserError
from oodometer.study import load_study

_SPEC = importlib.util.spec_from_file_location("torture", Path(__file__).with_name("torture.py"))
torture = importlib.util.module_from_spec(_SPEC)
sys.modules["torture"] = torture
_SPEC.loader.exec_module(torture)

PATIENCE = 120.0  # seconds; only ever waited for if something is wrong
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

    _import_ray()
    from ray.cluster_utils import Cluster as Nodes

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 1})
        nodes.add_node(num_cpus=1)
        yield nodes
        nodes.shutdown()


@pytest.fixture(scope="module")
def ray_cluster(ray_nodes):
    from oodometer.engine.executors.cluster import Cluster

    cluster = Cluster(ray_nodes.address, silent_ticks=3)
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def pool(tasks):
    pool = Pool(2, silent_ticks=12)
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
    deadline = time.monotonic() + PATIENCE
    while len(ended) < len(tasks):
        assert time.monotonic() < deadline, f"only {sorted(ended)} ended"
        for _ in executor.idle():
            if waiting:
                executor.submit(waiting.pop(0))
        for end in executor.wait(0.1):
            assert end.task.name not in ended, "a task ends once"
            ended[end.task.name] = end
    return ended


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


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
    first: list[Ended] = []
    until(lambda: first or first.extend(spread.wait(0.1)))
    assert [end.task.name for end in first] == ["quick"]
    slow.write_text("")
    second: list[Ended] = []
    until(lambda: second or second.extend(spread.wait(0.1)))
    assert [end.task.name for end in second] == ["slow"]
    assert first[0].value != second[0].value != os.getpid()


def test_a_dead_worker_takes_only_its_task_along(spread, tasks, tmp_path):
    crash = Task("crash", tasks.crash_first, (str(tmp_path), signal.SIGKILL))
    ended = run_all(spread, [crash, *(Task(str(n), tasks.add, (n, 1)) for n in range(4))])
    assert ended["crash"].lost and ended["crash"].outside and not ended["crash"].error
    assert all(ended[str(n)].value == n + 1 for n in range(4))
    assert run_all(spread, [crash])["crash"].value == "second time"


def test_a_stopped_worker_is_replaced(spread, tasks, tmp_path):
    stop = Task("stop", tasks.stop_first, (str(tmp_path),))
    ended = run_all(spread, [stop, Task("other", tasks.add, (1, 1))])
    assert ended["stop"].lost and ended["stop"].outside and ended["other"].value == 2
    assert run_all(spread, [stop])["stop"].value == "second time"
    number = int((tmp_path / "was here").read_text())
    until(lambda: not Path(f"/proc/{number}").exists() or is_zombie(number))


def is_zombie(process: int) -> bool:
    return ") Z " in Path(f"/proc/{process}/stat").read_text()


def test_a_running_task_can_be_cancelled(spread, tasks, tmp_path):
    spread.submit(Task("endless", tasks.wait_for, (str(tmp_path / "never"),)))
    until(lambda: list(tmp_path.glob("*.here")))
    number = int(next(tmp_path.glob("*.here")).suffixes[0][1:])
    spread.cancel("endless")
    until(lambda: not Path(f"/proc/{number}").exists() or is_zombie(number))
    assert run_all(spread, [Task("next", tasks.add, (1, 1))])["next"].value == 2
    assert len(spread.idle()) == spread.slots


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


def test_a_worker_that_works_without_a_word_is_left_alone(tasks, monkeypatch):
    """A call that lets no other thread run must not be mistaken for a stopped process."""
    pool = Pool(1, silent_ticks=4)
    try:
        task = Task("spin", tasks.spin, (3.0,))
        pool.submit(task)
        worker = pool._workers[0]
        ended: list[Ended] = []

        def deaf() -> object:
            worker._known_beats = worker._beats  # as if it had never been heard
            return ended or ended.extend(pool.wait(0.05))

        until(deaf)
        assert ended[0].value == "done"
    finally:
        pool.close()


def test_a_runner_that_was_stopped_kills_nobody(tasks, tmp_path):
    """Time in which the runner itself stood still does not count against its workers."""
    code = (
        "import sys, time\n"
        f"sys.path.insert(0, {str(HERE)!r})\n"
        "import executor_tasks\n"
        "from oodometer.engine.executors import Task\n"
        "from oodometer.engine.executors.pool import Pool\n"
        "if __name__ == '__main__':\n"
        "    pool = Pool(1, silent_ticks=8)\n"
        "    pool.submit(Task('wait', executor_tasks.wait_for, (sys.argv[1],)))\n"
        "    ended = []\n"
        "    while not ended:\n"
        "        ended = pool.wait(0.1)\n"
        "    print(ended[0].lost or 'not lost')\n"
        "    pool.close()\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    go = tmp_path / "go"
    runner = subprocess.Popen(
        [sys.executable, str(script), str(go)], stdout=subprocess.PIPE, text=True
    )
    until(lambda: list(tmp_path.glob("*.here")))
    worker = int(next(tmp_path.glob("*.here")).suffixes[0][1:])
    for process in (runner.pid, worker):  # as a laptop that is closed stops both
        os.kill(process, signal.SIGSTOP)
    time.sleep(4)
    for process in (runner.pid, worker):
        os.kill(process, signal.SIGCONT)
    time.sleep(1)
    go.write_text("")
    assert runner.communicate(timeout=PATIENCE)[0].strip() == "not lost"


def test_ctrl_c_does_not_reach_the_workers(pool, tasks, tmp_path):
    go = tmp_path / "go"
    pool.submit(Task("wait", tasks.wait_for, (str(go),)))
    until(lambda: list(tmp_path.glob("*.here")))
    os.kill(int(next(tmp_path.glob("*.here")).suffixes[0][1:]), signal.SIGINT)
    threading.Timer(0.3, go.write_text, ("",)).start()
    ended: list[Ended] = []
    until(lambda: ended or ended.extend(pool.wait(0.1)))
    assert not ended[0].lost


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


def rest(executor: Executor, number: int) -> list[Ended]:
    found: list[Ended] = []
    until(lambda: found.extend(executor.wait(0.1)) or len(found) >= number)
    return found


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


@pytest.mark.parametrize("address", ["atuo", "127.0.0.1:1", "host:port", "ray://127.0.0.1:1", ""])
def test_a_cluster_that_is_not_there_is_told_at_once(address):
    from oodometer.engine.executors.cluster import _require_listener

    sentence = "There is no Ray cluster at|must be auto, local, or an address"
    with pytest.raises(UserError, match=sentence):
        _require_listener(address)


def test_without_ray_one_sentence_names_the_extra(monkeypatch):
    from oodometer.engine.executors.cluster import Cluster

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"--cluster needs Ray.*oodometer\[cluster\]"):
        Cluster("local")
