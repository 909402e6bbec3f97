"""Time the statistics over runs, beside plain loops over the same definitions, in one process.

    python benchmarks/stats.py [methods]

CPU seconds, the best of several repetitions; run with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from oodometer.stats.intervals import runs_interval
from oodometer.stats.leaderboard import from_values, leaderboard
from oodometer.stats.order import aso_matrix
from oodometer.stats.paired import sign_flip_test
from oodometer.stats.variance import variance_shares


def best_time(function: Callable[[], object], repetitions: int = 3) -> float:
    """Return the shortest CPU time in seconds."""
    times = []
    for _ in range(repetitions):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def loop_over_quantiles(a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> float:
    """One resample's violation ratio, grid point by grid point."""
    a, b = np.sort(rng.choice(a, a.size)), np.sort(rng.choice(b, b.size))
    violation = distance = 0.0
    for step in range(1, 200):
        gap = float(b[-(-b.size * step // 200) - 1] - a[-(-a.size * step // 200) - 1])
        distance += gap * gap
        violation += gap * gap if gap > 0.0 else 0.0
    return violation / distance if distance else 0.5


def order(methods: int, runs: int = 30, resamples: int = 1000) -> None:
    """Print the time of almost stochastic order between all pairs, and of a loop."""
    rng = np.random.default_rng(0)
    samples = [rng.normal(0.05 * method, 1.0, runs) for method in range(methods)]
    ours = best_time(lambda: aso_matrix(samples, rng=rng, resamples=resamples))
    once = best_time(lambda: loop_over_quantiles(samples[0], samples[1], rng), 20)
    loop = once * resamples * methods * (methods - 1) / 2
    print(
        f"almost stochastic order, {methods} x {methods} pairs, n = {runs}, {resamples} resamples"
    )
    print(f"{'aso_matrix':44}{ours:10.2f} s{1:10.0f} x")
    print(f"{'loop over quantiles*':44}{loop:10.2f} s{loop / ours:10.0f} x")
    print("* from the best of 20 resamples of one pair\n")


def others() -> None:
    """Print the time of one call of each of the others, at the size of a large study."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=30)
    table = rng.normal(size=(20, 30))
    grid = np.indices((5, 4, 3, 5)).reshape(4, -1)
    factors = dict(zip("abcd", grid.tolist(), strict=True))
    cells = rng.normal(size=grid.shape[1])
    rows: list[tuple[str, Callable[[], object]]] = [
        ("runs_interval, 30 runs", lambda: runs_interval(values)),
        (
            "sign_flip_test, 20 runs, exact",
            lambda: sign_flip_test(values[:20], values[10:], rng=rng),
        ),
        ("leaderboard, 20 x 30", lambda: leaderboard(from_values(table), declared=0)),
        (
            "variance_shares, 5 x 4 x 3, 5 repeats",
            lambda: variance_shares(cells, factors, rng=rng, replicate="d"),
        ),
    ]
    for name, function in rows:
        print(f"{name:44}{1000 * best_time(function):10.1f} ms")


def main() -> None:
    """Run all benchmarks."""
    order(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
    others()


if __name__ == "__main__":
    main()
