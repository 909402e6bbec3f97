"""The command line, as a stranger uses it: also with everything wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from torture import is_gone, workers_of
from typer.testing import CliRunner

from oodometer.cli import app, lists, main
from oodometer.engine.stores import FolderStore

PATIENCE = 900.0  # seconds; only ever waited for if something is wrong
STUDY = {
    "name": "tiny",
    "base": {"data": "stripes.npz", "network": "mlp", "width": 4, "epochs": 2},
    "factors": [{"field": "seed", "levels": [0, 1]}],
    "detectors": ["max_softmax", "energy", "mahalanobis"],
    "ood": ["uniform_noise", "inverted"],
}


def oodometer(*arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "oodometer", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=PATIENCE)


@pytest.fixture
def folder(tiny_npz, tmp_path):
    tiny_npz()
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(STUDY))
    return tmp_path


@pytest.fixture
def command(folder, monkeypatch, capsys):
    """Run a command as `oodometer` does, but in this process, which has PyTorch already."""
    monkeypatch.chdir(folder)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["oodometer", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return subprocess.CompletedProcess(arguments, ended.value.code or 0, *capsys.readouterr())

    return run


@pytest.fixture
def here(command):
    """Run a command in this process; return its exit code and its errors."""

    def run(*arguments: str) -> tuple[int, str]:
        done = command(*arguments)
        return done.returncode, done.stderr

    return run


@pytest.fixture
def refused(here):
    """Run a command that must fail with one sentence and no traceback; return the sentence."""

    def run(*arguments: str) -> str:
        code, error = here(*arguments)
        assert code == 2 and error.startswith("oodometer: ") and len(error.splitlines()) == 1
        return error

    return run


def test_a_study_from_file_to_report(folder, command):
    dry = command("run", "study.yaml", "--dry-run")
    assert dry.returncode == 0 and "2 training runs" in dry.stdout and "18 to do" in dry.stdout
    assert not (folder / "oodometer-store").exists(), "a dry run writes nothing"
    done = oodometer("run", "study.yaml", "--workers", 1, folder=folder)
    assert done.returncode == 0, done.stderr
    assert "nothing missing" in done.stdout
    # What was to be done, what was made and what is there are counted alike.
    to_do = re.findall(r"(\w+) +(\d+) to do, +0 in the store\n", dry.stdout)
    assert to_do == [("train", "2"), ("extract", "8"), ("score", "18")]
    assert "made: train 2, extract 8, score 18\n" in done.stdout
    status = command("status", "oodometer-store").stdout
    assert "finished: train 2 of 2, extract 8 of 8, score 18 of 18" in status
    told = json.loads(command("status", "oodometer-store", "--json").stdout)
    assert told["studies"][0]["stages"]["score"] == {"done": 18, "wanted": 18}
    assert told["kinds"]["scores"]["count"] == 18 and not told["runners"] and not told["claims"]
    report = Path(done.stdout.strip().splitlines()[-1].removeprefix("report: "))
    page = report.read_text()
    assert "<svg" in page and re.search(
        r"oodometer show [0-9a-f]{12} --store oodometer-store<", page
    )
    dry = command("run", "study.yaml", "--dry-run")
    assert dry.stdout.count(" 0 to do") == 3
    again = command("report", "oodometer-store", "--format", "md", "--out", "md")
    assert again.returncode == 0 and "| detector |" in (folder / "md/report.md").read_text()
    # Only what changed is done again.
    (folder / "study.yaml").write_text(yaml.safe_dump(STUDY | {"ood": [*STUDY["ood"], "rotated"]}))
    dry = command("run", "study.yaml", "--dry-run")
    assert " 0 to do" in dry.stdout and "6 to do,     18 in the store" in dry.stdout


@pytest.mark.usefixtures("checked_here")
def test_bad_input_gets_one_sentence(refused):
    assert "Did you mean 'study.yaml'" in refused("run", "stduy.yaml")
    assert "Unknown study 'demmo'. Did you mean 'demo'" in refused("run", "demmo")
    assert "Unknown list 'detector'. Did you mean 'detectors'" in refused("list", "detector")
    assert "Unknown detector 'enrgy'. Did you mean 'energy'" in refused("check", "enrgy")
    assert "does not exist" in refused("report", "nowhere")
    assert "Unknown report format 'exe'" in refused("report", ".", "--format", "exe")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"epoch": 3}, "Unknown key 'epoch'"),
        ({"base": STUDY["base"] | {"data": "none.npz"}}, "none.npz' does not exist"),
        ({"base": STUDY["base"] | {"data": "empty.npz"}}, "'empty' is empty"),
        ({"base": STUDY["base"] | {"data": "nan.npz"}}, "'nan' holds NaN or infinity in 60 of 60"),
        ({"ood": ["nan.npz"]}, "'nan' holds NaN or infinity in 60 of 60"),
        ({"base": STUDY["base"] | {"data": "loop.npz"}}, "Too many levels of symbolic links"),
        (
            {"base": STUDY["base"] | {"label_noise": "file(path=loop.npz)"}},
            "Too many levels of symbolic links",
        ),
        ({"base": STUDY["base"] | {"data": "a" * 300}}, "' cannot be used: File name too long."),
        ({"ood": ["none.npz"]}, "none.npz' does not exist"),
        (
            {"base": STUDY["base"] | {"optimizer": "adm"}},
            "Unknown optimizer 'adm'. Did you mean 'adam",
        ),
    ],
)
def test_bad_studies_get_one_sentence(refused, tiny_npz, change, sentence):
    nothing = {"train_images": np.zeros((0, 8, 8), np.uint8), "train_labels": np.zeros(0, int)}
    tiny_npz("empty.npz", **nothing)
    broken = np.full((60, 8, 8), np.nan, np.float32)
    tiny_npz("nan.npz", train_images=broken, test_images=broken)
    Path("loop.npz").symlink_to("loop.npz")
    Path("study.yaml").write_text(yaml.safe_dump(STUDY | change))
    assert sentence in refused("run", "study.yaml")


def test_a_store_that_cannot_be_written(refused):
    Path("file").write_text("")
    assert "is a file, not a folder" in refused("run", "study.yaml", "--store", "file")
    assert "cannot be written" in refused("run", "study.yaml", "--store", "/proc/nothing")


def test_ctrl_c_is_tidy(folder):
    endless = STUDY | {"factors": [{"field": "epochs", "levels": [1, 10**7]}]}
    (folder / "study.yaml").write_text(yaml.safe_dump(endless))
    command = [sys.executable, "-m", "oodometer", "run", "study.yaml", "--workers", "2"]
    runner = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + PATIENCE
    while not list(folder.glob("oodometer-store/scores/*/*.json")):
        assert runner.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    workers = workers_of(runner.pid)
    os.killpg(runner.pid, signal.SIGINT)  # as a terminal does: to the runner and its workers
    _, error = runner.communicate(timeout=PATIENCE)
    assert runner.returncode == 130
    # After ten seconds there are lines that tell the progress, too.
    sentence = "oodometer: interrupted; run the same command again to resume."
    assert error.splitlines()[-1] == sentence and "Traceback" not in error
    assert workers and all(map(is_gone, workers))
    assert FolderStore(folder / "oodometer-store").claims() == []
    assert not list(folder.glob("oodometer-store/unfinished/*"))


def test_the_list_of_detectors_says_what_they_learn_from_and_cost():
    done = CliRunner().invoke(app, ["list", "detectors", "--json"])
    known = {entry["name"]: entry for entry in json.loads(done.output)}
    assert known["csi"]["trained on"] == "images"
    assert known["atom"]["trained on"] == "labelled images, auxiliary outliers"
    assert known["binary_network"]["trained on"] == "labelled images, validation outliers"
    assert known["energy"]["trained on"] == "classifier outputs"
    assert known["odin"]["cost"] == "further passes" and known["energy"]["cost"] == "one pass"
    assert known["csi"]["cost"] == "trains 1 network per data set"
    assert known["binary_network"]["cost"] == "trains 1 network per run and outlier set"
    assert all(entry["paper"] for entry in known.values())
    lines = CliRunner().invoke(app, ["list", "detectors"]).output.splitlines()
    assert [line.split()[0] for line in lines] == ["name", *known]  # nothing wraps in a pipe


def test_lists_are_json():
    for what in ("detectors", "datasets", "networks", "studies", "protocols"):
        done = CliRunner().invoke(app, ["list", what, "--json"])
        entries = json.loads(done.stdout)
        assert entries and all(entry["name"] and entry["summary"] for entry in entries), what
    plain = oodometer("list", "protocols")
    assert "ranking" in plain.stdout


def test_help_and_version():
    assert "demo" in oodometer("--help").stdout
    assert oodometer("--version").stdout.startswith("oodometer 0.")


@pytest.mark.usefixtures("checked_here")
def test_check_tells_what_is_wrong(tmp_path, command, refused):
    (tmp_path / "mine.py").write_text(
        "import oodometer as om\n"
        '@om.detector(paper="Me 2026", needs={"logits"})\n'
        "def upside_down(train):\n"
        '    """The largest logit, with the wrong sign."""\n'
        "    return lambda test: test.logits.amax(1)\n"
    )
    done = command("check", "mine.py:upside_down")
    assert done.returncode == 1 and "direction failed for upside_down" in done.stdout
    good = command("check", "max_logit")
    assert good.returncode == 0 and "checks passed" in good.stdout
    assert "could not be imported" in refused("check", "nothing.here:mine")
    assert "none.py' does not exist" in refused("check", "none.py:mine")


@pytest.mark.usefixtures("checked_here")
def test_one_invalid_detector_does_not_hide_the_others_of_its_file(tmp_path, command):
    head = '@om.detector(paper="Me 2026b", needs={"%s"})\ndef %s(train):\n    """%s."""\n'
    (tmp_path / "several.py").write_text(
        "import oodometer as om\n"
        + head % ("inputs", "of_inputs", "Reads inputs")
        + "    return lambda test: test.inputs.sum(1)\n"
        + head % ("logits", "largest_logit", "Minus the largest logit")
        + "    return lambda test: -test.logits.amax(1)\n"
        + head % ("layers", "first_layer", "Reads a layer by number")
        + "    return lambda test: test.layers[0].sum(1)\n"
        + head % ("features", "of_pixels", "Reads what does not exist")
        + "    return lambda test: test.pixels.sum(1)\n"
        + head % ("logits", "of_scores", "Scores what it should be fitted on")
        + "    return -train.logits.amax(1)\n"
    )
    done = command("check", "several.py")
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and not done.stderr
    assert lines[0].startswith("several.py:of_inputs is not valid: Unknown need of detector")
    assert "Known: features, head, labels, layers, logits, " in lines[0]
    assert "several.py:largest_logit: 18 of 18 checks passed" in lines
    sentence = "layers are read by name, and these outputs have 'early', 'late'."
    alike = "needs_are_read, grid_matters, runs and 12 more failed for"
    assert f"{alike} first_layer: There is no layer 0: {sentence}" in lines
    (line,) = [line for line in lines if line.startswith(f"{alike} of_pixels: ")]
    assert "read outputs.pixels, which does not exist: outputs have logits, " in line
    (line,) = [line for line in lines if " failed for of_scores: " in line]
    assert (
        "'of_scores' returned a value of type Tensor when it was fitted: it must return a function"
        in line
    )
    good = command("check", "several.py:largest_logit")
    assert (
        good.returncode == 0 and good.stdout == "several.py:largest_logit: 18 of 18 checks passed\n"
    )
    done = command("check", "several.py:of_inputs")
    assert done.returncode == 2 and "Unknown need of detector 'of_inputs' 'inputs'." in done.stderr


def test_a_detector_that_ends_the_process_fails_alone(tmp_path):
    head = '@om.detector(paper="Me 2026", needs={"logits"})\ndef %s(train):\n    """%s."""\n'
    (tmp_path / "ends.py").write_text(
        "import ctypes, os\nimport oodometer as om\n"
        + head % ("leaves", "Ends the process") + "    os._exit(0)\n"
        + head % ("crashes", "Reads address 0") + "    ctypes.string_at(0)\n"
        + head % ("sane", "Minus the largest logit")
        + "    return lambda test: -test.logits.amax(1)\n"
    )  # fmt: skip
    done = oodometer("check", "ends.py", folder=tmp_path)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "ends.py:leaves failed: the process ended (exit code 0)",
        "ends.py:crashes failed: the process ended (signal 11)",
        "ends.py:sane: 18 of 18 checks passed",
    ]


def test_a_check_that_never_ends_fails_alone_and_prints_no_controls(tmp_path):
    head = '@om.detector(paper="Me 2026", needs={"logits"})\ndef %s(train):\n    """%s."""\n'
    (tmp_path / "slow.py").write_text(
        "import time\nimport oodometer as om\n"
        + head % ("never", "Never ends") + "    time.sleep(1e6)\n"
        + head % ("sane", "Minus the largest logit")
        + "    print('\\x1b[31mfitted\\u202e\\x07')\n"
        + "    return lambda test: -test.logits.amax(1)\n"
    )  # fmt: skip
    done = oodometer("check", "slow.py", "--time-limit", 15, folder=tmp_path)
    first, *others, last = done.stdout.splitlines()
    assert done.returncode == 1 and not done.stderr
    assert re.fullmatch(
        r"slow.py:never failed: check \d+ \(\w+\) took more than 15 s \(--time-limit\)", first
    )
    assert set(others) == {r"[31mfitted\u202e"}
    assert last == "slow.py:sane: 18 of 18 checks passed"


def test_an_import_that_never_ends_is_refused_by_check(tmp_path):
    (tmp_path / "never.py").write_text("while True: pass\n")
    done = oodometer("check", "never.py", "--time-limit", 2, folder=tmp_path)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr == "oodometer: 'never.py' could not be imported within 2 s (--time-limit).\n"


@pytest.mark.parametrize("kind", ["KeyboardInterrupt", "GeneratorExit", "SystemExit"])
@pytest.mark.parametrize("where", ["on import", "in forward"])
def test_what_a_users_code_raises_to_end_programs_is_a_sentence(here, kind, where):
    forward = f"    def forward(self, images): raise {kind}\n"
    module = f"raise {kind}\n" if where == "on import" else forward
    Path(f"ending_{kind}.py").write_text(
        f"import torch\nclass Net(torch.nn.Module):\n    ends = {kind}\n{module}"
    )
    data = ("--train", "stripes.npz", "--id", "stripes.npz", "--ood", "uniform_noise")
    code, said = here("evaluate", "--model", f"ending_{kind}.py:Net", *data)
    note, sentence = said.splitlines()
    assert code == 2 and note.startswith("note: no weights") and kind in sentence
    if kind == "KeyboardInterrupt":
        assert f"ending_{kind}.py', line 4, raised {kind}." in said


def test_ctrl_c_still_ends_a_command_without_an_error(here, monkeypatch):
    def interrupted() -> list[dict[str, object]]:
        signal.raise_signal(signal.SIGINT)
        return []

    monkeypatch.setattr(lists, "_list_networks", interrupted)
    # Whoever runs the tests in the background may have it ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert here("list", "networks") == (130, "")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--scale", "papr"], "Unknown scale of study 'tiny': 'papr'. Did you mean 'paper'?"),
        (["--device", "gpu", "--dry-run"], "Unknown device 'gpu'. Did you mean 'cpu'?"),
        (["--device", "cuda:99999999999"], "Unknown device 'cuda:99999999999'."),
        (["--out", "file"], "Cannot write to 'file': 'file' is a file, not a folder."),
        (["--out", "file/deep"], "Cannot write to 'file/deep': "),
        (["--out", "x" * 300], "File name too long."),
    ],
)
def test_a_run_that_cannot_be_is_refused_before_anything_is_written(here, arguments, sentence):
    Path("file").write_text("")
    before = sorted(Path().rglob("*"))
    code, said = here("run", "study.yaml", *arguments)
    assert code == 2 and sentence in said and len(said.splitlines()) == 1
    assert sorted(Path().rglob("*")) == before


def test_brackets_in_names_are_no_markup(tmp_path, monkeypatch):
    folder = tmp_path / "[b]" / "[" / "x]"
    folder.mkdir(parents=True)
    np.savez(folder / "usps.npz", images=np.zeros((2, 16, 16), np.uint8), labels=np.arange(2))
    monkeypatch.setenv("OODOMETER_DATA", str(folder))
    monkeypatch.setattr("oodometer.cli.common.LEAST_WIDTH", 1000)
    answer = CliRunner().invoke(app, ["list", "datasets"])
    assert answer.exit_code == 0 and f"{folder}/usps.npz" in answer.stdout


@pytest.mark.usefixtures("checked_here")
def test_messages_of_a_users_code_are_cleaned(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "class Mine:\n"
        "    def fit(self, images): ...\n"
        "    def score(self, images):\n"
        "        raise ValueError('\\x1b[31mred\\u202e\\x07')\n"
    )
    answer = CliRunner().invoke(app, ["check", f"{file}:Mine"], color=True)
    assert answer.exit_code == 1 and r"ValueError: [31mred\u202e" in answer.stdout
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", answer.output)


@pytest.mark.usefixtures("checked_here")
@pytest.mark.parametrize(
    ("detector", "sentence"),
    [
        ("knn(k=5)", "give only the name, knn."),
        ("mine.py", "mine.py' does not exist."),
        ("mine", "file.py:name,"),
    ],
)
def test_check_names_the_form_of_what_it_takes(here, detector, sentence):
    code, said = here("check", detector)
    assert code == 2 and sentence in said and len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "last_run"),
    [((), "run seed=9\n  and 30 more (--verbose lists them)"), (("--verbose",), "run seed=39")],
)
def test_a_dry_run_of_many_runs_lists_the_first(here, monkeypatch, options, last_run):
    study = STUDY | {"factors": [{"field": "seed", "levels": list(range(40))}]}
    Path("study.yaml").write_text(yaml.safe_dump(study))
    printed: list[str] = []
    monkeypatch.setattr("typer.echo", lambda text, err: printed.append(text))
    assert here("run", "study.yaml", "--dry-run", *options) == (0, "")
    assert f"{last_run}\nestimated time" in "\n".join(printed)


def test_a_dry_run_tells_runs_from_training_runs(here, monkeypatch):
    """Two epochs of three seeds are six runs, for which three networks are trained."""
    factors = [{"field": "seed", "levels": [0, 1, 2]}, {"field": "epoch", "levels": [1, "last"]}]
    Path("study.yaml").write_text(yaml.safe_dump(STUDY | {"factors": factors}))
    printed: list[str] = []
    monkeypatch.setattr("typer.echo", lambda text, err: printed.append(text))
    code, said = here("run", "study.yaml", "--dry-run")
    assert (code, said) == (0, "")
    assert ": 6 runs of 3 training runs, " in printed[0]


def test_a_setting_out_of_range_is_refused_by_a_dry_run(here):
    Path("study.yaml").write_text(yaml.safe_dump(STUDY | {"detectors": ["energy", "knn(k=-3)"]}))
    code, said = here("run", "study.yaml", "--dry-run")
    assert (code, said) == (2, "oodometer: Setting k of 'knn' must be at least 1, got -3.\n")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"network": "own.py:number"}, "must make a torch.nn.Module, but made a int."),
        ({"network": "own.py:broken"}, "'own.py:broken' could not be built: RuntimeError: no"),
        ({"label_noise": "file(path=labels.txt)"}, "labels.txt"),
    ],
)
def test_a_dry_run_opens_factories_and_label_files(here, change, sentence):
    Path("own.py").write_text(
        "def number(classes, units): return 3\n"
        "def broken(classes, units): raise RuntimeError('no')\n"
    )
    Path("labels.txt").write_text("some\nwords\n")
    Path("study.yaml").write_text(yaml.safe_dump(STUDY | {"base": STUDY["base"] | change}))
    code, said = here("run", "study.yaml", "--dry-run")
    assert code == 2 and sentence in said and len(said.splitlines()) == 1


def test_diagnose_takes_several_outlier_sets_as_evaluate_does(here):
    twice = here("diagnose", "--id", "stripes.npz", "--ood", "inverted", "inverted")
    assert twice == (2, "oodometer: Outlier set 'inverted' is named twice.\n")
    code, said = here("diagnose", "--id", "", "--ood", "inverted")  # not the working folder
    assert code == 2 and "The name of a data set is empty" in said


def test_an_error_of_our_own_ends_in_one_sentence(here, monkeypatch):
    monkeypatch.setattr(lists, "_list_networks", lambda: [1 // 0])
    code, said = here("list", "networks")
    assert code == 1 and len(said.splitlines()) == 1
    assert "Internal error: ZeroDivisionError" in said
    file = Path(said.partition(" saved to ")[2].partition(";")[0])
    assert "Traceback" in file.read_text()
    file.unlink()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_behind_the_output_is_one_sentence():
    command = [sys.executable, "-m", "oodometer", "list", "studies"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "oodometer: No space left on device.\n")


@pytest.mark.parametrize(
    ("start", "told"),
    [
        (
            "threading.Thread(target=time.sleep, args=(1e6,)).start()",
            "oodometer: not waiting for a thread that other code has started.\n",
        ),
        ("lists.pool = ThreadPoolExecutor(1); lists.pool.submit(len, '').result()", ""),
    ],
    ids=["for ever", "pool"],
)
def test_a_thread_of_other_code_does_not_keep_a_command_from_ending(start, told):
    """As a user's detector may start one when it is imported; Python ends those of pools."""
    program = (
        "import sys, threading, time; import oodometer.cli.lists as lists\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "names = lists._list_{0}\n"
        "def start(): {1}; return names()\n"
        "lists._list_{0} = start; sys.argv = ['oodometer', 'list', '{0}', '--json']\n"
        "from oodometer.cli import main; main()"
    )
    command = [sys.executable, "-c", program.format("studies", start)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, json.loads(done.stdout)[0]["name"]) == (0, "demo")
    assert done.stderr == told


@pytest.mark.parametrize("columns", ["0", "1", "40"])
def test_a_narrow_terminal_still_gets_its_lists(monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", columns)
    lists.list_known("protocols")
    assert "ranking" in capsys.readouterr().out
