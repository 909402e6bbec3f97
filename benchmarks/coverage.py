"""Simulate worlds with a known answer: how often are intervals right, and tests wrong?

    python benchmarks/coverage.py [PART] [simulations]

PART: means, areas, shares, one_factor, tests, correlations, wins, runs, power, leaderboard,
whole_boards, scored, nested, nested_pages, nested_tables, two_runs, varying_least, spreads,
equal_pages or all.

Prints percentages: intervals of level 95 % should cover 93 to 97, tests of level 5 % should reject
at most 5 where there is nothing. Chance moves a percentage of n simulations by about 22 / sqrt(n).
Run with OMP_NUM_THREADS=1; `all` takes an hour with 2,000 simulations.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import numpy as np
from equal_pages import equal_pages
from few_runs import leaderboards, whole_boards
from nested import nested_runs
from nested_pages import nested_pages
from nested_tables import nested_tables
from numpy.typing import NDArray
from scipy.special import expit, ndtr, ndtri
from spreads import equal_spreads
from two_runs import two_runs
from varying_least import varying_least

from oodometer.stats import Placements, against_best, auroc_difference, holm, mean_auroc
from oodometer.stats.agreement import spearman, tau_b
from oodometer.stats.intervals import runs_interval
from oodometer.stats.leaderboard import from_scores, leaderboard
from oodometer.stats.paired import sign_flip_test, t_test, win_probability
from oodometer.stats.power import runs_needed, t_test_power
from oodometer.stats.variance import variance_shares

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]
UNIT_LOGNORMAL = math.sqrt((math.exp(0.25) - 1.0) * math.exp(0.25))  # deviation, sigma = 1/2
VALUES: dict[str, tuple[Draw, float]] = {  # values of runs, and their mean
    "normal": (lambda rng, n: rng.normal(0.9, 0.02, n), 0.9),
    "uniform": (lambda rng, n: rng.uniform(0.9, 1.0, n), 0.95),
    "AUROC, Beta(19, 1)": (lambda rng, n: rng.beta(19, 1, n), 0.95),
    "AUROC, Beta(9, 1/2)": (lambda rng, n: rng.beta(9, 0.5, n), 9 / 9.5),
    "AUROC, Beta(95, 5)": (lambda rng, n: rng.beta(95, 5, n), 0.95),
    "AUROC, logit-normal(3, 0.6)": (lambda rng, n: expit(rng.normal(3, 0.6, n)), 0.944952),
    "AUROC, normal separation": (lambda rng, n: ndtr(rng.normal(2, 0.5, n)), ndtr(2 / 1.25**0.5)),
    "0.93 - gamma(4) / 100": (lambda rng, n: 0.93 - rng.gamma(4, 0.01, n), 0.89),
    "0.93 - exponential / 50": (lambda rng, n: 0.93 - rng.exponential(0.02, n), 0.91),
    "1 in 10 runs fails": (
        lambda rng, n: np.where(rng.random(n) < 0.1, rng.beta(5, 5, n), rng.beta(95, 5, n)),
        0.905,
    ),
}
NOISES: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Floats]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "uniform": lambda rng, shape: (rng.random(shape) - 0.5) * math.sqrt(12),
    "t, 5 degrees": lambda rng, shape: rng.standard_t(5, size=shape) * math.sqrt(0.6),
    "lognormal": lambda rng, shape: (
        (math.exp(0.125) - rng.lognormal(0, 0.5, shape)) / UNIT_LOGNORMAL
    ),
    "exponential": lambda rng, shape: 1.0 - rng.exponential(size=shape),
}


def show(name: str, shares: Sequence[float]) -> None:
    """Print one line of percentages."""
    print(f"{name:44}" + "".join(f"{100 * share:8.1f}" for share in shares), flush=True)


def means(simulations: int) -> None:
    """Coverage of the mean of one value per run."""
    runs = (2, 3, 5, 10, 30)
    for title, bounds in (("bounds (0, 1)", (0.0, 1.0)), ("no bounds", (-math.inf, math.inf))):
        print(f"\n{'mean over runs, ' + title:44}" + "".join(f"{n:8}" for n in runs))
        for name, (draw, truth) in VALUES.items():
            rng = np.random.default_rng(0)
            shares = []
            for n in runs:
                drawn = (draw(rng, n) for _ in range(simulations))
                found = [runs_interval(np.clip(v, 0, 1), bounds=bounds) for v in drawn]
                shares.append(float(np.mean([i.low <= truth <= i.high for i in found])))
            show(name, shares)


def scores(
    rng: np.random.Generator,
    runs: int,
    size: int,
    area: float,
    spreads: Sequence[float],
    *,
    shared: bool = True,
) -> list[list[tuple[Floats, Floats]]]:
    """Detectors of expected AUROC `area`; run r of detector d is separated by N(., spread d)."""
    detectors = len(spreads)

    def noise() -> Floats:
        samples = 1 if shared else runs
        return (
            math.sqrt(0.5) * rng.normal(size=(1, samples, size))
            + math.sqrt(0.2) * rng.normal(size=(detectors, samples, size))
            + math.sqrt(0.2) * rng.normal(size=(1, runs, size))
            + math.sqrt(0.1) * rng.normal(size=(detectors, runs, size))
        )

    spread = np.array(spreads)[:, None, None]
    shift = float(ndtri(area)) * np.sqrt(2 + spread**2) + spread * rng.normal(
        size=(detectors, runs, 1)
    )
    return [list(zip(a, b, strict=True)) for a, b in zip(noise(), noise() + shift, strict=True)]


def areas(simulations: int) -> None:
    """Coverage of AUROC over training runs and samples; level of differences of AUROC."""
    runs = (2, 3, 5, 9)
    print(f"\n{'mean AUROC; spread of separation, samples':44}" + "".join(f"{n:8}" for n in runs))
    for area, spread, size in (
        (0.75, 0.3, 100),
        (0.9, 0.3, 300),
        (0.97, 0.3, 100),
        (0.95, 0.6, 300),
    ):
        rng = np.random.default_rng(2)
        shares = []
        for n in runs:
            found = [
                mean_auroc(scores(rng, n, size, area, [spread])[0]) for _ in range(simulations)
            ]
            shares.append(float(np.mean([i.low <= area <= i.high for i in found])))
        show(f"AUROC {area}, {spread}, {size}", shares)
    print(f"\n{'equal AUROC told apart; spreads, samples':44}" + "".join(f"{n:8}" for n in runs))
    for area, spreads, size, shared in (
        (0.75, (0.3, 0.3), 100, True),
        (0.9, (0.5, 0.5), 300, True),
        (0.97, (0.3, 0.3), 100, True),
        (0.9, (0.3, 0.3), 100, False),
        (0.9, (0.2, 0.1), 100, True),
        (0.9, (0.6, 0.05), 100, True),
        (0.9, (0.6, 0.05), 1000, True),
        (0.97, (0.6, 0.05), 300, True),
        (0.75, (0.6, 0.05), 300, True),
        (0.5, (0.6, 0.05), 100, True),
        (0.9, (1.0, 0.05), 300, True),
        (0.995, (0.3, 0.3), 30, True),
    ):
        rng = np.random.default_rng(4)
        shares = []
        for n in runs:
            told = 0
            for _ in range(simulations):
                a, b = (
                    Placements.of_runs(detector, shared_samples=shared)
                    for detector in scores(rng, n, size, area, spreads, shared=shared)
                )
                told += auroc_difference(a, b).p_value < 0.05
            shares.append(told / simulations)
        show(f"AUROC {area}, {spreads}, {size}{'' if shared else ', not shared'}", shares)


def planted(
    rng: np.random.Generator, shape: tuple[int, int, int], shares: Sequence[float], noise: Floats
) -> Floats:
    """A grid (a, b, repeats) whose effects have exactly these variances."""

    def scaled(effect: Floats, share: float) -> Floats:
        return effect * math.sqrt(share / float((effect**2).mean()))

    first, second = rng.normal(size=(shape[0], 1)), rng.normal(size=(1, shape[1]))
    both = rng.normal(size=shape[:2])
    both = both - both.mean(axis=0) - both.mean(axis=1, keepdims=True) + both.mean()
    cells = scaled(first - first.mean(), shares[0]) + scaled(second - second.mean(), shares[1])
    cells = cells + scaled(both, shares[2])
    return np.asarray(cells[:, :, None] + math.sqrt(shares[3]) * noise)


def shares_of_variance(simulations: int) -> None:
    """Coverage of shares of variance of two factors, their interaction and the repeats."""
    for shape in ((2, 2, 5), (3, 3, 3), (4, 3, 2), (5, 4, 5)):
        print(f"\n{f'grid {shape}; a, b, a x b, repeats':44}       a       b     a b repeats")
        places = np.indices(shape).reshape(3, -1)
        factors = dict(zip(("a", "b", "repeats"), places.tolist(), strict=True))
        for shares in (
            (0.09, 0.2, 0.1, 0.61),
            (0.5, 0.2, 0.05, 0.25),
            (0.9, 0.03, 0.02, 0.05),
            (0.02, 0.02, 0.01, 0.95),
        ):
            for name, noise in NOISES.items():
                rng = np.random.default_rng(5)
                held = np.zeros(4)
                for _ in range(simulations):
                    table = planted(rng, shape, shares, noise(rng, shape))
                    found = variance_shares(
                        table.reshape(-1), factors, rng=rng, replicate="repeats", resamples=400
                    )
                    held += [
                        effect.low is not None
                        and effect.high is not None
                        and effect.low - 1e-12 <= share <= effect.high + 1e-12
                        for effect, share in zip(found.effects, shares, strict=True)
                    ]
                show(f"{shares} {name}", list(held / simulations))


def one_factor(simulations: int) -> None:
    """Coverage of the shares of one factor and of the repeats, and their means."""
    print(f"\n{'levels, repeats; share of repeats':44}  factor repeats  found")
    for levels, repeats, share in ((2, 3, 0.2), (5, 3, 0.61), (3, 5, 0.95), (20, 3, 0.99)):
        effect = np.linspace(-1.0, 1.0, levels)
        effect *= math.sqrt((1.0 - share) / float((effect**2).mean()))
        truth = np.array([1.0 - share, share])
        places = np.indices((levels, repeats)).reshape(2, -1)
        factors = dict(zip(("factor", "repeats"), places.tolist(), strict=True))
        for name, noise in NOISES.items():
            rng = np.random.default_rng(10)
            found = [
                variance_shares(
                    (effect[:, None] + math.sqrt(share) * noise(rng, (levels, repeats))).ravel(),
                    factors,
                    rng=rng,
                    replicate="repeats",
                    resamples=400,
                ).effects
                for _ in range(simulations)
            ]
            ends = np.array([[(e.low, e.high, e.share) for e in effects] for effects in found])
            held = (ends[:, :, 0] <= truth + 1e-12) & (truth - 1e-12 <= ends[:, :, 1])
            show(f"{levels}, {repeats}; {share} {name}", [*held.mean(axis=0), ends[:, 1, 2].mean()])


def tests(simulations: int) -> None:
    """Level of paired tests and of families of them."""
    runs = (3, 5, 8, 12)
    print(f"\n{'equal methods told apart; runs':44}" + "".join(f"{n:8}" for n in runs))
    pairs: dict[str, Draw] = {
        "normal": lambda rng, n: rng.normal(size=n),
        "exponential - exponential": lambda rng, n: (
            rng.exponential(size=n) - rng.exponential(size=n)
        ),
        "AUROC, Beta(19, 1) - Beta(38, 2)": lambda rng, n: rng.beta(19, 1, n) - rng.beta(38, 2, n),
        "exponential - 1": lambda rng, n: rng.exponential(size=n) - 1.0,
    }
    for name, draw in pairs.items():
        rng = np.random.default_rng(6)
        told: dict[str, list[float]] = {
            "t": [],
            "sign flips": [],
            "covered by t": [],
            "covered by flips": [],
        }
        for n in runs:
            drawn = [draw(rng, n) for _ in range(simulations)]
            zero = np.zeros(n)
            results = {
                "t": [t_test(d, zero) for d in drawn],
                "flips": [sign_flip_test(d, zero, rng=rng) for d in drawn],
            }
            names = {"t": "t", "flips": "sign flips"}
            for test, many in results.items():
                told[names[test]].append(float(np.mean([one.p_value < 0.05 for one in many])))
                held = [one.low <= 0.0 <= one.high for one in many]
                told[f"covered by {test}"].append(float(np.mean(held)))
        for test, shares in told.items():
            show(f"{name}: {test}", shares)
    methods = (2, 3, 5, 10, 20)
    print(
        f"\n{'the best told from any of k equal ones; k':44}" + "".join(f"{k:8}" for k in methods)
    )
    rules: dict[str, Callable[[Floats], Floats]] = {"holm": holm, "against_best": against_best}
    for n in (5, 10):
        for rule, adjust in rules.items():
            rng = np.random.default_rng(7)
            shares = []
            for k in methods:
                wrong = 0
                for _ in range(simulations // 2):
                    values = rng.normal(size=(k, n))
                    values = values[np.argsort(-values.mean(axis=1))]
                    p = np.array([t_test(values[0], other).p_value for other in values[1:]])
                    wrong += bool((adjust(p) < 0.05).any())
                shares.append(wrong / (simulations // 2))
            show(f"{rule}, {n} runs", shares)


def correlations(simulations: int) -> None:
    """Coverage of rank correlations."""
    sizes = (5, 6, 8, 12, 20)
    print(f"\n{'rank correlation of normal values; items':44}" + "".join(f"{n:8}" for n in sizes))
    for between in (0.0, 0.5, 0.9):
        truths = {
            "tau": (tau_b, 2.0 / math.pi * math.asin(between)),
            "spearman": (spearman, 6.0 / math.pi * math.asin(0.5 * between)),
        }
        for name, (correlation, truth) in truths.items():
            rng = np.random.default_rng(11)
            shares = []
            for n in sizes:
                x, other = rng.normal(size=(2, simulations, n))
                y = between * x + math.sqrt(1.0 - between**2) * other
                found = [correlation(*pair) for pair in zip(x, y, strict=True)]
                shares.append(float(np.mean([i.low <= truth <= i.high for i in found])))
            show(f"{name}, correlation {between}", shares)


def wins(simulations: int) -> None:
    """Coverage of the chance that one method beats another."""
    sizes = (3, 5, 10, 30)
    print(f"\n{'chance that a beats b; runs':44}" + "".join(f"{n:8}" for n in sizes))
    for chance in (0.5, 0.8, 0.95):
        rng = np.random.default_rng(12)
        shares = []
        for n in sizes:
            a, b = rng.normal(size=(2, simulations, n))
            a += float(ndtri(chance)) * math.sqrt(2.0)
            found = [win_probability(*pair) for pair in zip(a, b, strict=True)]
            shares.append(float(np.mean([i.low <= chance <= i.high for i in found])))
        show(str(chance), shares)


def needed_runs(simulations: int) -> None:
    """Coverage of the number of runs needed."""
    print(f"\n{'runs needed; observed runs':44}" + "".join(f"{n:8}" for n in (3, 5, 10)))
    for effect in (0.8, 1.5):
        rng = np.random.default_rng(14)
        truth = next(n for n in range(2, 1000) if t_test_power(n, effect) >= 0.8)
        shares = []
        for n in (3, 5, 10):
            needed = [
                runs_needed(rng.normal(effect, 1.0, n), np.zeros(n))
                for _ in range(simulations // 4)
            ]
            inside = [
                (i.low or math.inf) <= truth <= (math.inf if i.high is None else i.high)
                for i in needed
            ]
            shares.append(float(np.mean(inside)))
        show(f"effect {effect}: {truth}", shares)


def promised_power(simulations: int) -> None:
    """Power with the number of runs that is said to be needed."""
    print(f"\n{'effect / spread, power: runs':44}promised   found   one run less")
    for effect, wanted in ((2.5, 0.8), (1.2, 0.8), (0.8, 0.8), (0.5, 0.8), (0.6, 0.95)):
        line = np.linspace(-1, 1, 10)
        line = effect + line / line.std(ddof=1)
        runs = runs_needed(line, np.zeros(10), power=wanted).runs
        if runs is None:
            continue
        rng = np.random.default_rng(9)
        found = [
            float(
                np.mean(
                    [
                        t_test(rng.normal(effect, 1.0, n), np.zeros(n)).p_value < 0.05
                        for _ in range(simulations)
                    ]
                )
            )
            for n in (runs, runs - 1)
        ]
        show(f"{effect}, {wanted}: {runs}", [t_test_power(runs, effect), *found])


def scored_leaderboards(simulations: int) -> None:
    """Print, in Markdown, the level and power of comparisons of scores over training runs."""
    print("\n| 8 detectors, scores | runs | wrong | best excluded | found | alone |")
    print("|---|---|---|---|---|---|")
    for name, area, spreads, size, retraining in (
        ("AUROC 0.9, 200 samples", 0.9, (0.3,) * 8, 200, True),
        ("AUROC 0.9, 1,000 samples", 0.9, (0.3,) * 8, 1000, True),
        ("AUROC 0.97, 100 samples", 0.97, (0.3,) * 8, 100, True),
        ("AUROC 0.9, runs hardly differ", 0.9, (0.05,) * 8, 200, True),
        (
            "AUROC 0.9, SD from 0.05 to 0.6",
            0.9,
            (0.1, 0.05, 0.05, 0.1, 0.2, 0.3, 0.6, 0.6),
            200,
            True,
        ),
        ("these very models, AUROC 0.9", 0.9, (0.0,) * 8, 200, False),
        ("these very models, AUROC 0.99, 50 samples", 0.99, (0.0,) * 8, 50, False),
    ):
        for runs in (3, 5):
            rng = np.random.default_rng(17)
            counts = np.zeros(4)
            for number in range(simulations):
                drawn = scores(rng, runs, size, area, spreads)
                placed = [Placements.of_runs(one) for one in drawn]
                ours = number % 8
                found = leaderboard(from_scores(placed, retraining=retraining), declared=ours)
                counts[0] += any(one.p_value < 0.05 for one in found.ours)
                counts[1] += not found.can_be_best[found.declared or 0]
                ahead = [(low, high + 4.0 * max(spreads)) for low, high in drawn[ours]]
                placed[ours] = Placements.of_runs(ahead)
                found = leaderboard(from_scores(placed, retraining=retraining), declared=ours)
                counts[2] += np.mean([one.p_value < 0.05 for one in found.ours]) * 8 / 7
                others = [one for row, one in enumerate(placed) if row != ours]
                alone = [auroc_difference(placed[ours], one).p_value for one in others]
                counts[3] += np.mean(holm(alone) < 0.05)
            shares = counts / simulations
            cells = [f"{100 * share:.1f}" for share in shares[: 4 if retraining else 2]]
            print(
                f"| {name} | {runs} |",
                " | ".join(cells + ["–"] * (4 - len(cells))),
                "|",
                flush=True,
            )


PARTS: dict[str, Callable[[int], None]] = {
    "means": means,
    "areas": areas,
    "shares": shares_of_variance,
    "one_factor": one_factor,
    "tests": tests,
    "correlations": correlations,
    "wins": wins,
    "runs": needed_runs,
    "power": promised_power,
    "leaderboard": leaderboards,
    "whole_boards": whole_boards,
    "scored": scored_leaderboards,
    "nested": nested_runs,
    "nested_pages": nested_pages,
    "nested_tables": nested_tables,
    "two_runs": two_runs,
    "varying_least": varying_least,
    "spreads": equal_spreads,
    "equal_pages": equal_pages,
}


def main() -> None:
    """Run the part named, or all."""
    chosen = sys.argv[1] if len(sys.argv) > 1 else "all"
    simulations = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    for name, part in PARTS.items():
        if chosen in (name, "all"):
            part(simulations)


if __name__ == "__main__":
    main()
