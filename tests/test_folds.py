"""Folds of a cross-validation are not independent runs."""

import numpy as np
import pandas as pd

import oodometer as om
from oodometer.stats.leaderboard import from_values, leaderboard, over_folds

FOLDS = 10


def cross_validated(rng, samples=60):
    """R^2-like values in 10 folds of two regressions that read different, equally good inputs."""
    inputs = rng.normal(size=(samples, 2, 6))
    target = inputs[:, :, 0].sum(axis=1) + rng.normal(size=samples)
    values = np.empty((2, FOLDS))
    for fold, tested in enumerate(np.array_split(rng.permutation(samples), FOLDS)):
        trained = np.setdiff1d(np.arange(samples), tested)
        for model in range(2):
            known = inputs[trained, model]
            fit = np.linalg.lstsq(known, target[trained], rcond=None)[0]
            errors = target[tested] - inputs[tested, model] @ fit
            values[model, fold] = -np.mean(errors**2)
    return values


def test_equal_models_are_separated_in_one_world_in_twenty():
    rng = np.random.default_rng(3)
    wrong = np.zeros(2)
    worlds = 400
    for _ in range(worlds):
        naive = from_values(cross_validated(rng))
        for place, pairwise in enumerate((naive, over_folds(naive, FOLDS, FOLDS))):
            wrong[place] += leaderboard(pairwise, level=0.95).is_decided
    naive, corrected = wrong / worlds
    assert corrected < 0.05 + 3 * np.sqrt(0.05 * 0.95 / worlds)
    assert naive > 2 * corrected


def test_a_table_of_folds_says_so_and_one_of_seeds_does_not(tmp_path):
    rng = np.random.default_rng(0)
    lines = [
        {"method": method, "fold": fold, "AUROC": 0.9 + shift + rng.normal(0, 0.004)}
        for method, shift in (("a", 0.0), ("b", 0.006), ("c", -0.05))
        for fold in range(5)
    ]
    claims = {}
    for name in ("fold", "seed"):
        file = tmp_path / f"{name}.csv"
        pd.DataFrame(lines).rename(columns={"fold": name}).to_csv(file, index=False)
        (finding, *_) = om.analyze(file)
        claims[name] = finding
    assert any("5 folds, which share" in caveat for caveat in claims["fold"].caveats)
    assert not any("folds" in caveat for caveat in claims["seed"].caveats)
    assert claims["fold"].claims[0].verdict == "undecided"
