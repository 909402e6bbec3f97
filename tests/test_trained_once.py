"""A detector whose own network serves all classifiers is one case, however many runs there are."""

import numpy as np
import pytest

from oodometer.protocols import score_protocol
from oodometer.protocols.common.sources import trained_once_caveats
from oodometer.scores import ScoreRow, ScoreTable
from oodometer.stats.comparison import Placements
from oodometer.stats.leaderboard import from_scores, leaderboard

SAMPLES = 400


def scored(rng, shift):
    """ID and OOD scores whose separation is `shift` standard deviations."""
    return rng.normal(0.0, 1.0, SAMPLES), rng.normal(shift, 1.0, SAMPLES)


def table_of(separations, networks, rng):
    """A table of runs: separations[detector][run], same network number -> same scores."""
    runs = {f"seed={n}": {"seed": n} for n in range(len(next(iter(separations.values()))))}
    rows = []
    for detector, shifts in separations.items():
        made = {}
        for (run, levels), shift in zip(runs.items(), shifts, strict=True):
            network = networks.get(detector, range(len(runs)))[levels["seed"]]
            for name, scores in zip(
                ("id", "far"), made.setdefault(network, scored(rng, shift)), strict=True
            ):
                rows.append(ScoreRow(run, detector, "", name, scores))
    return ScoreTable("id", tuple(rows), runs)


def ahead_after_retraining(rng, networks, runs=5, spread=0.25):
    """Whether equal detectors, one of whose networks serves several runs, are separated."""
    drawn = {name: 1.5 + rng.normal(0.0, spread, runs) for name in "abcd"}
    once = 1.5 + rng.normal(0.0, spread, runs)
    drawn["own"] = once[list(networks)]
    pairs = {
        name: Placements.of_runs([scored(rng, shift) for shift in shifts], shared_samples=False)
        for name, shifts in drawn.items()
        if name != "own"
    }
    made = {}
    own = [made.setdefault(n, scored(rng, drawn["own"][k])) for k, n in enumerate(networks)]
    pairs["own"] = Placements.of_runs(own, shared_samples=False)
    different = [tuple(range(runs))] * 4
    pairwise = from_scores(
        list(pairs.values()), retraining=True, sources=[*different, tuple(networks)]
    )
    naive = from_scores(list(pairs.values()), retraining=True)
    separated = []
    for compared in (pairwise, naive):
        board = leaderboard(compared, level=0.95, declared=4)
        place = list(board.order).index(4)
        separated.append(any(d.p_value < 0.05 for n, d in enumerate(board.ours) if n != place))
    return separated


@pytest.mark.parametrize("networks", [(0, 0, 0, 0, 0), (0, 0, 2, 2, 2)], ids=["one", "two"])
def test_equal_detectors_are_rarely_separated(networks):
    rng = np.random.default_rng(5)
    found = np.array([ahead_after_retraining(rng, networks) for _ in range(150)])
    right, naive = found.mean(axis=0)
    assert right < 0.09  # 5%, and what 150 worlds can add to it
    assert naive > 0.15  # runs taken for cases: what this is there to prevent


def test_a_detector_far_behind_is_still_behind():
    rng = np.random.default_rng(0)
    runs = 6
    near = {name: 2.5 + rng.normal(0.0, 0.02, runs) for name in ("vim", "knn", "energy")}
    table = table_of(near | {"pixels": [0.1] * runs}, {"pixels": [0] * runs}, rng)
    finding = score_protocol("ranking")(table, np.random.default_rng(0))
    behind = [claim for claim in finding.claims if "ehind" in claim.text and "pixels" in claim.text]
    assert behind and behind[0].verdict == "holds"


def test_a_small_lead_of_one_network_is_undecided():
    rng = np.random.default_rng(0)
    runs = 6
    near = {name: 1.5 + rng.normal(0.0, 0.1, runs) for name in ("vim", "knn", "energy")}
    table = table_of(near | {"pixels": [1.8] * runs}, {"pixels": [0] * runs}, rng)
    finding = score_protocol("ranking")(table, np.random.default_rng(0))
    assert finding.claims[0].text.startswith("pixels has the highest")
    assert finding.claims[0].verdict == "undecided"
    (caveat,) = trained_once_caveats(table)
    assert caveat.startswith("Same scores in all 6 training runs: pixels.")


def test_other_detectors_and_single_runs_get_no_caveat():
    rng = np.random.default_rng(0)
    assert trained_once_caveats(table_of({"vim": [1.0, 1.0]}, {}, rng)) == []
    assert trained_once_caveats(table_of({"vim": [1.0]}, {}, rng)) == []
