"""Worlds of detectors and few runs with a known answer: level, coverage and power of leaderboards.

Parts `leaderboard` and `whole_boards` of coverage.py, which print the tables of docs/statistics.md.
Every world makes values (worlds, detectors, runs) and says their true means, the unit of gaps (the
standard deviation of a usual detector) and the bounds of values. All detectors are equally good
where the true means are 0; otherwise coverage of the true differences is what counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr, ndtri, stdtr, stdtrit

from oodometer.stats.leaderboard import from_values, leaderboard
from oodometer.stats.pairwise import declared_growth, shared_over_runs
from oodometer.stats.sharing import pair_variances
from oodometer.stats.summary import UNBOUNDED

Floats = NDArray[np.float64]
Shape = tuple[int, int, int]
UNIT = (0.0, 1.0)
DETECTORS = (18, 8, 4)
RUNS = (3, 5, 10)
GAP = 4.0  # standard deviations
STEP = 500  # worlds at once


class World(NamedTuple):
    """Values of detectors in runs, what they estimate, the unit of gaps and the bounds."""

    values: Floats
    truth: Floats | float = 0.0
    unit: float = 1.0
    bounds: tuple[float, float] = UNBOUNDED


Make = Callable[[np.random.Generator, Shape], World]


def _deviations(rng: np.random.Generator, shape: Shape, spread: float) -> Floats:
    """Standard deviations of detectors, whose logarithms scatter by `spread`."""
    return np.exp(spread * rng.normal(size=(*shape[:2], 1)))


def _unequal(spread: float) -> Make:
    return lambda rng, shape: World(_deviations(rng, shape, spread) * rng.normal(size=shape))


def _skewed(spread: float, sign: float = 1.0) -> Make:
    return lambda rng, shape: World(
        sign * _deviations(rng, shape, spread) * (1.0 - rng.exponential(size=shape))
    )


def _failing(drop: float) -> Make:
    """Each detector fails in one run of ten, on its own."""
    return lambda rng, shape: World(
        rng.normal(size=shape) - drop * ((rng.random(shape) < 0.1) - 0.1)
    )


def _failing_runs(drop: float) -> Make:
    """One run in ten fails for all detectors, by differing amounts."""

    def make(rng: np.random.Generator, shape: Shape) -> World:
        failed = rng.random((shape[0], 1, shape[2])) < 0.1
        return World(rng.normal(size=shape) - drop * failed * rng.uniform(0.0, 2.0, size=shape))

    return make


def _families(number: int, share: float, spread: float = 0.0) -> Make:
    """Families of detectors that move together: `share` of their variance."""

    def make(rng: np.random.Generator, shape: Shape) -> World:
        worlds, detectors, runs = shape
        family = rng.normal(size=(worlds, number, runs))[:, np.arange(detectors) % number]
        mixed = math.sqrt(share) * family + math.sqrt(1.0 - share) * rng.normal(size=shape)
        return World(_deviations(rng, shape, spread) * mixed)

    return make


def _one_cause(rng: np.random.Generator, shape: Shape) -> World:
    """One cause moves all detectors, each by as much as it likes."""
    loads = 2.0 * rng.normal(size=(*shape[:2], 1))
    return World(rng.normal(size=shape) + loads * rng.normal(size=(shape[0], 1, shape[2])))


def _near_one(middle: float, spread: float, common: float = 0.0) -> Make:
    """AUROCs whose logits are normal around one place, with a part common to all detectors."""
    drawn = expit(middle + spread * np.random.default_rng(9).normal(size=400_001))

    def make(rng: np.random.Generator, shape: Shape) -> World:
        own = math.sqrt(1.0 - common) * rng.normal(size=shape)
        shared = math.sqrt(common) * rng.normal(size=(shape[0], 1, shape[2]))
        values = expit(middle + spread * (own + shared))
        return World(values, float(drawn.mean()), float(drawn.std()), UNIT)

    return make


def _spread_out(low: float, high: float, spread: float) -> Make:
    """AUROCs whose logits vary alike around places from low to high."""
    points, weights = np.polynomial.hermite_e.hermegauss(40)

    def make(rng: np.random.Generator, shape: Shape) -> World:
        places = np.broadcast_to(np.linspace(low, high, shape[1])[:, None], (*shape[:2], 1))
        places = rng.permuted(places, axis=1)
        truth = (expit(places + spread * points) * weights).sum(axis=-1) / weights.sum()
        return World(expit(places + spread * rng.normal(size=shape)), truth, 0.1 * spread, UNIT)

    return make


def _skewed_areas(rng: np.random.Generator, shape: Shape) -> World:
    """AUROCs of 0.9 of detectors whose separation varies by 0.05 to 0.6: skewed, and unequally."""
    spread = rng.choice([0.05, 0.1, 0.2, 0.3, 0.6], size=(*shape[:2], 1))
    middle = float(ndtri(0.9)) * np.sqrt(2.0 + spread**2)
    values = ndtr((middle + spread * rng.normal(size=shape)) / math.sqrt(2.0))
    return World(values, 0.9, 0.025, UNIT)


def _linear(low: float, high: float, spread: float) -> Make:
    """AUROCs from low to high that all vary alike."""

    def make(rng: np.random.Generator, shape: Shape) -> World:
        truth = rng.permuted(np.broadcast_to(np.linspace(low, high, shape[1]), shape[:2]), axis=1)
        values = np.clip(truth[:, :, None] + spread * rng.normal(size=shape), 0.0, 1.0)
        return World(values, truth, spread, UNIT)

    return make


def _declared_varies(factor: float) -> Make:
    """The declared detector varies more than all others."""

    def make(rng: np.random.Generator, shape: Shape) -> World:
        values = rng.normal(size=shape)
        values[:, 0] *= factor
        return World(values)

    return make


WORLDS: dict[str, Make] = {
    "equal standard deviations (SD)": lambda rng, shape: World(rng.normal(size=shape)),
    "SD differ by e^0.3": _unequal(0.3),
    "SD differ by e^0.5": _unequal(0.5),
    "SD differ by e": _unequal(1.0),
    "heavy tails (t, 5 df)": lambda rng, shape: World(
        math.sqrt(0.6) * rng.standard_t(5, size=shape)
    ),
    "skewed to the left (exponential)": _skewed(0.0),
    "skewed to the right": _skewed(0.0, -1.0),
    "skewed to the left, SD differ by e^0.5": _skewed(0.5),
    "a detector fails in 1 of 10 runs, by 5 SD": _failing(5.0),
    "... by 20 SD": _failing(20.0),
    "1 of 10 runs fails for all, by about 5 SD": _failing_runs(5.0),
    "... by about 20 SD": _failing_runs(20.0),
    "2 families, correlation 0.5": _families(2, 0.5),
    "2 families, correlation 0.9": _families(2, 0.9),
    "4 families, correlation 0.8, SD differ by e^0.5": _families(4, 0.8, 0.5),
    "one cause moves all, differently": _one_cause,
    "AUROC about 0.95, logits ± 0.6": _near_one(3.0, 0.6),
    "AUROC about 0.99, logits ± 1": _near_one(5.0, 1.0),
    "AUROC about 0.95, half of it common": _near_one(3.0, 0.6, 0.5),
    "AUROC from 0.73 to 0.99, logits ± 0.3": _spread_out(1.0, 5.0, 0.3),
    "AUROC from 0.6 to 0.98, all ± 0.004": _linear(0.6, 0.98, 0.004),
    "declared detector: twice the SD of others": _declared_varies(2.0),
    "declared detector: three times": _declared_varies(3.0),
}


def _some_vary(rng: np.random.Generator, shape: Shape) -> World:
    """A fifth of the detectors varies four times as much as the others."""
    factors = np.where(rng.random((*shape[:2], 1)) < 0.2, 4.0, 1.0)
    return World(factors * rng.normal(size=shape))


def _neighbours(rng: np.random.Generator, shape: Shape) -> World:
    """Each detector moves as its neighbour does, and a little on its own."""
    walk = np.cumsum(rng.normal(size=shape), axis=1) / math.sqrt(shape[1] / 2)
    return World(walk[:, rng.permutation(shape[1])])


def _three_causes(rng: np.random.Generator, shape: Shape) -> World:
    """Three causes move all detectors, each by as much as it likes."""
    worlds, detectors, runs = shape
    loads, causes = rng.normal(size=(worlds, detectors, 3)), rng.normal(size=(worlds, 3, runs))
    return World(loads @ causes / math.sqrt(3.0) + 0.3 * rng.normal(size=shape))


def _noisy_run(rng: np.random.Generator, shape: Shape) -> World:
    """One run is four times as noisy as the others, for all detectors."""
    factors = np.ones((shape[0], 1, shape[2]))
    factors[:, :, 0] = 4.0
    return World(factors * rng.normal(size=shape))


def _betas(rng: np.random.Generator, shape: Shape) -> World:
    """AUROCs of 0.95 whose variances differ tenfold."""
    total = np.exp(rng.uniform(math.log(10.0), math.log(100.0), size=(*shape[:2], 1)))
    return World(rng.beta(0.95 * total, 0.05 * total, size=shape), 0.95, 0.03, UNIT)


def _another_varies(factor: float) -> Make:
    """One that is not declared varies more than all others."""

    def make(rng: np.random.Generator, shape: Shape) -> World:
        values = rng.normal(size=shape)
        values[:, -1] *= factor
        return World(values)

    return make


def _one_fails(drop: float) -> Make:
    """One that is not declared fails in one run of ten; its mean is that of the others."""

    def make(rng: np.random.Generator, shape: Shape) -> World:
        values = rng.normal(size=shape)
        values[:, -1] -= drop * ((rng.random((shape[0], shape[2])) < 0.1) - 0.1)
        return World(values)

    return make


# Constants of `sharing` were chosen by what they do in WORLDS; these were simulated afterwards.
AFTERWARDS: dict[str, Make] = {
    "a fifth of the detectors: four times the SD": _some_vary,
    "variances scatter as gamma(1)": lambda rng, shape: World(
        np.sqrt(rng.gamma(1.0, size=(*shape[:2], 1))) * rng.normal(size=shape)
    ),
    "neighbours move together": _neighbours,
    "three causes move all, differently": _three_causes,
    "heavy tails (t, 3 df)": lambda rng, shape: World(
        rng.standard_t(3, size=shape) / math.sqrt(3.0)
    ),
    "skewed to the left (lognormal, 0.8)": lambda rng, shape: World(
        math.exp(0.32) - rng.lognormal(0.0, 0.8, size=shape)
    ),
    "one run: four times the SD": _noisy_run,
    "AUROC 0.95, Beta(19, 1)": lambda rng, shape: World(
        rng.beta(19.0, 1.0, size=shape), 0.95, math.sqrt(0.95 * 0.05 / 21.0), UNIT
    ),
    "AUROC 0.95, variances differ tenfold": _betas,
    "AUROC 0.9, SD differ twelvefold, skewed": _skewed_areas,
    "another detector: eight times the SD": _another_varies(8.0),
    "another detector: sixteen times": _another_varies(16.0),
}
BOARDS = {
    **{name: WORLDS[name] for name in ("equal standard deviations (SD)", "SD differ by e^0.5")},
    **{
        f"another detector: {factor:.0f} times the SD": _another_varies(factor)
        for factor in (4.0, 8.0, 16.0)
    },
    "skewed to the left, SD differ by e^0.5": _skewed(0.5),
    "skewed to the left, SD differ by e": _skewed(1.0),
    "another detector alone fails in 1 of 10 runs, by 10 SD": _one_fails(10.0),
}


class Rates(NamedTuple):
    """Shares of simulated worlds."""

    wrong: float  # any difference of the declared detector is significant, though there is none
    excluded: float  # a detector, as good as any and not declared, is found to be behind
    covered: float  # intervals of one difference
    found: float  # of differences of 4 standard deviations
    found_alone: float  # the same, each by its own variance, with Holm's correction


def rates(make: Make, detectors: int, runs: int, simulations: int) -> Rates:
    """Simulate the comparisons of one declared detector."""
    rng = np.random.default_rng(15)
    totals: list[tuple[float, ...]] = []
    others = detectors - 1
    for _ in range(max(1, simulations // STEP)):
        values, truth, unit, bounds = make(rng, (STEP, detectors, runs))
        shared = shared_over_runs(values, bounds)
        error = np.sqrt(shared.variance[:, 0, 1:] / runs)
        df = shared.df[:, 0, 1:]
        wide = error * declared_growth(df, shared.declared_df[:, 0, 1:])
        means = values.mean(axis=-1) - truth
        gaps = means[:, :1] - means[:, 1:]
        family = -stdtrit(df, 0.025 / others) * wide
        alone = np.sqrt(pair_variances(values)[:, 0, 1:] / runs)
        p_values = 2.0 * stdtr(runs - 1, -np.abs(gaps + GAP * unit) / alone)
        totals.append(
            (
                float((np.abs(gaps) > family).any(axis=1).mean()),
                float((-gaps > -stdtrit(df, 0.05 / others) * error).any(axis=1).mean()),
                float((np.abs(gaps) <= -stdtrit(df, 0.025) * wide).mean()),
                float((np.abs(gaps + GAP * unit) > family).mean()),
                float(_holm_found(p_values)),
            )
        )
    return Rates(*np.mean(totals, axis=0).tolist())


def _holm_found(p_values: Floats) -> float:
    """Share of tests that Holm's method finds, of families in rows."""
    many = p_values.shape[1]
    steps = np.sort(p_values, axis=1) * (many - np.arange(many))
    return float((np.maximum.accumulate(steps, axis=1) < 0.05).mean())


def _percent(shares: list[float], digits: int = 1) -> str:
    return ", ".join(f"{100.0 * share:.{digits}f}" for share in shares)


def leaderboards(simulations: int) -> None:
    """Print tables in Markdown: declared comparisons per world, and who is called behind."""
    for worlds in (WORLDS, AFTERWARDS):
        declared(worlds, simulations)
    called_behind(simulations // 4)


def whole_boards(simulations: int) -> None:
    """Print how often any two of equal detectors are told apart, by all rules of a leaderboard."""
    print("\n| world | detectors, runs | one is declared | none is |")
    print("|---|---|---|---|")
    for name, make in BOARDS.items():
        for detectors, runs in ((3, 3), (6, 10), (18, 3)):
            tables = make(np.random.default_rng(17), (simulations, detectors, runs)).values
            wrong = [0, 0]
            for pairwise in map(from_values, tables):
                for place, declared in enumerate((0, None)):
                    board = leaderboard(pairwise, declared=declared)
                    told = any(found.p_value < 0.05 for found in board.ours)
                    wrong[place] += told or bool(board.separated.any())
            shares = " | ".join(f"{100.0 * own / simulations:.1f}" for own in wrong)
            print(f"| {name} | {detectors}, {runs} | {shares} |", flush=True)


def declared(worlds: dict[str, Make], simulations: int) -> None:
    """Print level, coverage and power of the comparisons of one declared detector."""
    head = [f"wrong, k = {k}" for k in DETECTORS]
    print("\n| world |", " | ".join([*head, "best excluded", "covered", "found", "alone"]), "|")
    print("|---" * (len(head) + 5) + "|")
    for name, make in worlds.items():
        cells = {k: [rates(make, k, n, simulations) for n in RUNS] for k in DETECTORS}
        every = [one for row in cells.values() for one in row]
        covered = [one.covered for one in every]
        print(
            f"| {name} |",
            " | ".join(
                [
                    *(_percent([one.wrong for one in cells[k]]) for k in DETECTORS),
                    _percent([max(one.excluded for one in every)]),
                    f"{100 * min(covered):.0f} to {100 * max(covered):.0f}",
                    _percent([one.found for one in cells[18]], 0),
                    _percent([one.found_alone for one in cells[18]], 0),
                ]
            ),
            "|",
            flush=True,
        )


def called_behind(simulations: int) -> None:
    """Print how often detectors as good as the best are called behind."""
    print("\n| as good as the best | runs | any of them called behind | a named one | ranks hold |")
    print("|---|---|---|---|---|")
    for detectors, tied in ((4, 4), (8, 8), (18, 18), (18, 9), (18, 2), (18, 1)):
        for runs in (3, 10):
            rng = np.random.default_rng(16)
            truth = np.zeros(detectors)
            truth[tied:] = -1.0 - 3.0 * rng.random(detectors - tied)
            anyone = named = held = 0
            for _ in range(simulations):
                values = truth[:, None] + rng.normal(size=(detectors, runs))
                found = leaderboard(from_values(values))
                best = [found.can_be_best[found.order.index(row)] for row in range(tied)]
                anyone += not all(best)
                named += not best[0]
                low, high = found.ranks[found.order.index(0)]
                held += low == 1 and high >= tied
            shares = [anyone / simulations, named / simulations, held / simulations]
            print(f"| {tied} of {detectors} | {runs} |", end=" ")
            print(" | ".join(f"{100 * share:.1f}" for share in shares), "|", flush=True)
