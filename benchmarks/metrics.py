"""Time metrics and their intervals beside one sort and beside scikit-learn, in one process.

    python benchmarks/metrics.py [scores per group]

Each time is the best of several repetitions; run with OMP_NUM_THREADS=1 on a quiet machine.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import combinations

import numpy as np
from sklearn.metrics import roc_auc_score

from oodometer import metrics
from oodometer.stats import Placements, auroc_difference, mean_auroc


def best_time(function: Callable[[], object], repetitions: int = 50) -> float:
    """Return the shortest time in milliseconds: the one that other processes disturbed least."""
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def single_estimates(id_scores: np.ndarray, ood_scores: np.ndarray) -> None:
    """Print AUROC with and without interval against one sort of all scores."""
    pooled = np.concatenate([id_scores, ood_scores])
    truth = np.concatenate([np.zeros(id_scores.size), np.ones(ood_scores.size)])
    rows: list[tuple[str, Callable[[], object]]] = [
        ("np.sort of all scores", lambda: np.sort(pooled)),
        ("auroc", lambda: metrics.auroc(id_scores, ood_scores)),
        ("auroc_interval", lambda: metrics.auroc_interval(id_scores, ood_scores)),
        ("scikit-learn roc_auc_score", lambda: roc_auc_score(truth, pooled)),
    ]
    times = {name: best_time(function) for name, function in rows}
    sort = times["np.sort of all scores"]
    theirs = times["scikit-learn roc_auc_score"]
    print(f"{'':30}{'ms':>10}{'x sort':>10}{'x sklearn':>12}")
    for name, value in times.items():
        print(f"{name:30}{value:10.3f}{value / sort:10.2f}{value / theirs:12.3f}")


def bootstraps(id_scores: np.ndarray, ood_scores: np.ndarray, resamples: int = 1000) -> None:
    """Print the time of many resamples of all metrics against a loop over one of them."""
    rng = np.random.default_rng(1)
    truth = np.concatenate([np.zeros(id_scores.size), np.ones(ood_scores.size)])

    def loop() -> None:
        drawn = rng.choice(id_scores, id_scores.size), rng.choice(ood_scores, ood_scores.size)
        roc_auc_score(truth, np.concatenate(drawn))

    ours = best_time(
        lambda: metrics.estimate_all(id_scores, ood_scores, rng=rng, resamples=resamples), 3
    )
    theirs = resamples * best_time(loop, 20)
    print(f"\n{resamples} resamples{'':14}{'ms':>14}{'ratio':>8}")
    print(f"{'all metrics, estimate_all':30}{ours:10.0f}{1:8.1f}")
    print(f"{'AUROC only, scikit-learn loop*':30}{theirs:10.0f}{theirs / ours:8.1f}")
    print("* from the best of 20 resamples")


def study(detectors: int = 20, sets: int = 5, runs: int = 9, size: int = 1000) -> None:
    """Print the time of all intervals and all pairwise tests of a study."""
    rng = np.random.default_rng(2)
    scores = {
        (detector, ood): [(rng.normal(size=size), rng.normal(1, 1, size)) for _ in range(runs)]
        for detector in range(detectors)
        for ood in range(sets)
    }
    start = time.perf_counter()
    placed = {key: Placements.of_runs(value) for key, value in scores.items()}
    placing = time.perf_counter()
    for value in placed.values():
        mean_auroc(value)
    means = time.perf_counter()
    pairs = list(combinations(range(detectors), 2))
    for ood in range(sets):
        for a, b in pairs:
            auroc_difference(placed[a, ood], placed[b, ood])
    end = time.perf_counter()
    print(f"\n{detectors} detectors, {sets} OOD sets, {runs} runs, {size} + {size} scores")
    print(f"{'placements':30}{placing - start:10.2f} s")
    print(f"{f'{len(placed)} mean_auroc':30}{means - placing:10.2f} s")
    print(f"{f'{sets * len(pairs)} auroc_difference':30}{end - means:10.2f} s")


def main() -> None:
    """Run all benchmarks."""
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    rng = np.random.default_rng(0)
    id_scores, ood_scores = rng.normal(size=size), rng.normal(1.0, 1.0, size=size)
    print(f"{size} + {size} scores\n")
    single_estimates(id_scores, ood_scores)
    bootstraps(id_scores, ood_scores)
    study()


if __name__ == "__main__":
    main()
