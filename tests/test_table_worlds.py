"""Tables of random designs are read as they were designed, in whatever form they are written."""

from __future__ import annotations

import random

import pytest
from table_cases import cases, judge, read
from table_layouts import LAYOUTS
from table_worlds import POST_HOC, Axis, World, random_world

import oodometer as om
from oodometer.tables import read_results

SEED = 20240
NUMBERS = range(90)


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return list(cases(SEED, NUMBERS, tmp_path_factory.mktemp("worlds")))


def test_no_table_is_read_wrongly(sample):
    faults = {
        case.number: f"{case.layout} ({case.written.form}): {case.outcome.fault}"
        for case in sample
        if case.outcome.kind in ("wrong", "crash")
    }
    assert not faults


def test_most_tables_are_read_without_a_question(sample):
    kinds = [case.outcome.kind for case in sample]
    assert kinds.count("right") >= 0.85 * len(kinds)
    assert kinds.count("needless") + kinds.count("refused") <= 0.05 * len(kinds)


def test_the_sample_holds_most_forms(sample):
    assert len({case.layout for case in sample}) >= len(LAYOUTS) - 2
    assert len({case.written.form for case in sample}) > 8
    assert any(case.written.world.spreads for case in sample)


def test_the_judge_finds_what_is_wrong(tmp_path):
    rng = random.Random(3)
    world = random_world(rng)
    written = LAYOUTS["long"](world, rng, tmp_path)
    assert not judge(written, read_results(written.path))
    other = {cell: dict.fromkeys(numbers, "0.5") for cell, numbers in world.cells.items()}
    changed = World(world.axes, world.metrics, other, world.spellings, False)
    wrong = type(written)(written.path, changed, frozenset(), "")
    assert judge(wrong, read_results(written.path)).startswith(("value", "spread"))
    fewer = {cell: n for cell, n in world.cells.items() if cell[0] != world.axes[0].levels[0]}
    changed = World(world.axes, world.metrics, fewer, world.spellings, world.is_percent)
    wrong = type(written)(written.path, changed, frozenset(), "")
    assert "detectors" in judge(wrong, read_results(written.path))


def one_world():
    """Five detectors, two ID sets, three outlier sets and three seeds; AUROC alone."""
    rng = random.Random(11)
    axes = (
        Axis("method", "detector", POST_HOC[:5]),
        Axis("id_dataset", "id", ("CIFAR-10", "CIFAR-100")),
        Axis("ood_dataset", "ood", ("iSUN", "Textures", "Places365")),
        Axis("seed", "repeat", ("0", "1", "2")),
    )
    cells = {
        (d, i, o, s): {"auroc": f"{0.7 + 0.04 * n + rng.gauss(0, 0.02):.4f}"}
        for n, d in enumerate(axes[0].levels)
        for i in axes[1].levels
        for o in axes[2].levels
        for s in axes[3].levels
    }
    return World(axes, ("auroc",), cells, {"auroc": "AUROC"}, is_percent=False)


def test_all_forms_of_a_world_have_one_verdict(tmp_path):
    world = one_world()
    answers, means = {}, {}
    for n, (name, layout) in enumerate(LAYOUTS.items()):
        folder = tmp_path / f"{n}"
        folder.mkdir()
        written = layout(world, random.Random(n), folder)
        if written is None or name == "unnumbered" or read(written).kind != "right":
            continue
        finding = om.analyze(written.path)[0]
        answers[name] = finding.answer
        means[name] = {row[0]: row[1].value for row in finding.tables[0].rows}
    assert len(answers) >= 8
    assert len(set(answers.values())) == 1, answers
    expected = {
        detector: sum(float(v["auroc"]) for c, v in world.cells.items() if c[0] == detector) / 18
        for detector in world.axes[0].levels
    }
    for found in means.values():
        assert found == pytest.approx(expected, abs=1e-9)
