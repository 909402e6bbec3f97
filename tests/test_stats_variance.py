"""Shares of variance: least squares, closed forms, planted components, coverage."""

from itertools import product

import numpy as np
import pytest
import scipy.stats
from scipy.special import chndtrinc, ndtri

from oodometer.errors import UserError
from oodometer.stats.variance import one_at_a_time, variance_shares


def generator(seed=0):
    return np.random.default_rng(seed)


def lines(table, names=("optimizer", "augment", "seed", "epoch")):
    """A grid as values and factors, one line per cell."""
    places = np.indices(table.shape).reshape(table.ndim, -1)
    factors = {name: place.tolist() for name, place in zip(names, places, strict=False)}
    return table.reshape(-1), factors


def dummies(table, axes):
    """Columns of indicators of every combination of levels of some axes."""
    places = np.indices(table.shape).reshape(table.ndim, -1)
    shape = [table.shape[axis] for axis in axes]
    return np.array(
        [np.all([places[a] == level for a, level in zip(axes, levels, strict=True)], axis=0)
         for levels in product(*map(range, shape))], dtype=float,
    ).T  # fmt: skip


def explained(table, subsets):
    """Sum of squares that a least squares fit with these terms explains."""
    design = np.column_stack([np.ones(table.size), *(dummies(table, axes) for axes in subsets)])
    values = table.reshape(-1)
    fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return float(((fitted - values.mean()) ** 2).sum())


def test_shares_are_what_least_squares_adds():
    table = generator(1).normal(size=(3, 4, 2))
    found = variance_shares(*lines(table), rng=generator())
    total = float(((table - table.mean()) ** 2).sum())
    names = ("optimizer", "augment", "seed")
    for axis in range(3):
        share = explained(table, [(axis,)]) / total
        assert found.of(names[axis]).share == pytest.approx(share)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        share = (explained(table, [(a, b)]) - explained(table, [(a,), (b,)])) / total
        assert found.of(names[b], names[a]).share == pytest.approx(share)
    rest = 1 - explained(table, [(0, 1), (0, 2), (1, 2)]) / total
    assert found.of("remainder").share == pytest.approx(rest)
    assert sum(effect.share for effect in found.effects) == pytest.approx(1.0)
    assert found.variance == pytest.approx(table.var())
    assert all(effect.low is None for effect in found.effects)
    assert "one value per cell" in found.notes[0]


def test_closed_forms():
    a, b = np.array([-1.0, 1.0]), np.array([-2.0, 0.0, 2.0])
    added = variance_shares(*lines(a[:, None] + b), rng=generator())
    assert added.of("optimizer").share == pytest.approx(1 / (1 + 8 / 3))
    assert added.of("optimizer", "augment").share == pytest.approx(0.0, abs=1e-12)
    product_only = variance_shares(*lines(a[:, None] * b), rng=generator())
    assert product_only.of("augment", "optimizer").share == pytest.approx(1.0)
    three = variance_shares(*lines(a[:, None, None] * a[:, None] * a), rng=generator())
    assert three.of("remainder").share == pytest.approx(1.0)


def planted(rng, shape, shares, noise=None):
    """A grid (a, b, repeats) whose effects have exactly these variances."""

    def scaled(effect, share):
        return effect * np.sqrt(share / (effect**2).mean()) if share else 0.0 * effect

    a, b, _ = shape
    first, second = rng.normal(size=(a, 1)), rng.normal(size=(1, b))
    both = rng.normal(size=(a, b))
    both = both - both.mean(axis=0) - both.mean(axis=1, keepdims=True) + both.mean()
    cells = (
        scaled(first - first.mean(), shares[0])
        + scaled(second - second.mean(), shares[1])
        + scaled(both, shares[2])
    )
    noise = rng.normal(size=shape) if noise is None else noise(size=shape)
    return cells[:, :, None] + np.sqrt(shares[3]) * noise


@pytest.mark.parametrize(
    ("shape", "shares"),
    [
        ((4, 3, 3), (0.09, 0.2, 0.1, 0.61)),
        ((5, 2, 2), (0.5, 0.0, 0.0, 0.5)),
        ((3, 3, 3), (0.02, 0.02, 0.01, 0.95)),
    ],
)
def test_planted_shares_are_found_and_covered(shape, shares):
    """Means over simulations are right, and 95 % intervals hold the truth in about 95 %."""
    rng = generator(2)
    simulations = 300
    found = np.array(
        [
            [
                (effect.share, effect.low, effect.high)
                for effect in variance_shares(
                    *lines(planted(rng, shape, shares)), rng=rng, replicate="seed", resamples=150
                ).effects
            ]
            for _ in range(simulations)
        ]
    )
    truth = np.array(shares)
    assert found[:, :, 0].mean(axis=0) == pytest.approx(truth, abs=0.1 if shares[3] > 0.9 else 0.05)
    assert found[:, :, 0].sum(axis=1) == pytest.approx(1.0)
    covered = ((found[:, :, 1] <= truth + 1e-12) & (truth <= found[:, :, 2])).mean(axis=0)
    assert (covered >= 0.9).all()


@pytest.mark.parametrize(("levels", "seeds", "share"), [(2, 3, 0.2), (5, 3, 0.61), (4, 5, 0.95)])
def test_one_factor_is_found_and_covered(levels, seeds, share):
    """The exact answer is the noncentral F distribution's, which the draws agree with."""
    rng = generator(12)
    effect = np.linspace(-1, 1, levels)
    effect *= np.sqrt((1 - share) / (effect**2).mean())
    ends = []
    for _ in range(300):
        table = effect[:, None] + np.sqrt(share) * rng.normal(size=(levels, seeds))
        found = variance_shares(
            *lines(table, ("optimizer", "seed")), rng=rng, replicate="seed", resamples=150
        )
        ends.append([(found.of(n).low, found.of(n).high) for n in ("optimizer", "seed")])
    low, high = np.moveaxis(np.array(ends), 2, 0)
    covered = ((low <= [1 - share, share]) & ([1 - share, share] <= high)).mean(axis=0)
    assert (covered >= 0.9).all() and (covered <= 0.995).all()


def test_share_of_skewed_noise_is_covered():
    """Few repeats show too little of a heavy tail: taken at its word, 84 % of intervals held."""
    rng = generator(10)
    shares = (0.9, 0.03, 0.02, 0.05)
    held = 0
    for _ in range(400):
        table = planted(rng, (3, 3, 5), shares, lambda size: 1 - rng.exponential(size=size))
        found = variance_shares(*lines(table), rng=rng, replicate="seed", resamples=120)
        held += found.of("seed").low <= 0.05 <= found.of("seed").high
    assert 0.87 <= held / 400 <= 0.98


def test_noise_alone_is_not_explained_by_factors_with_many_levels():
    """Plain shares would give 9 of 29 degrees of freedom to a factor that does nothing."""
    rng = generator(3)
    shares = [
        variance_shares(
            *lines(rng.normal(size=(10, 3)), ("optimizer", "seed")),
            rng=rng,
            replicate="seed",
            resamples=50,
        )
        for _ in range(200)
    ]
    assert np.mean([s.of("optimizer").share for s in shares]) < 0.13  # cut at 0, so not 0
    assert np.median([s.of("optimizer").share for s in shares]) < 0.06
    assert np.mean([s.of("optimizer").low <= 0.01 for s in shares]) >= 0.93


def test_more_repeats_narrow_the_intervals():
    rng = generator(4)
    widths = []
    for repeats in (2, 8, 40):
        effects = [
            variance_shares(
                *lines(planted(rng, (4, 2, repeats), (0.3, 0.1, 0.1, 0.5))),
                rng=rng,
                replicate="seed",
                resamples=200,
            ).of("seed")
            for _ in range(10)
        ]
        widths.append(np.mean([effect.high - effect.low for effect in effects]))
    assert widths == sorted(widths, reverse=True) and widths[2] < 0.3 * widths[0]


def test_unnamed_repeats_and_order_of_lines():
    rng = generator(5)
    values, factors = lines(planted(rng, (3, 2, 4), (0.3, 0.1, 0.1, 0.5)))
    named = variance_shares(values, factors, rng=generator(), replicate="seed")
    seed = factors.pop("seed")
    unnamed = variance_shares(values, factors, rng=generator())
    assert unnamed.of("repeats") == ((("repeats",)), *named.of("seed")[1:])
    order = rng.permutation(values.size)
    shuffled = {
        "augment": [f"a{factors['augment'][i]}" for i in order],
        "seed": [seed[i] for i in order],
        "optimizer": [factors["optimizer"][i] for i in order],
    }
    again = variance_shares(values[order], shuffled, rng=generator(), replicate="seed")
    for effect in named.effects:
        assert again.of(*effect.factors).share == pytest.approx(effect.share)


def test_strong_effects_use_the_quick_inversion_that_agrees():
    for freedom in (1, 4, 20):
        for chance in (0.025, 0.5, 0.975):
            exact = chndtrinc(1000.0, freedom, chance)
            quick = (np.sqrt(1000.0) - ndtri(chance)) ** 2 - (freedom - 1)
            assert quick == pytest.approx(exact, rel=0.005)
    table = planted(generator(6), (4, 3, 3), (0.9, 0.09, 0.01, 1e-9))
    found = variance_shares(*lines(table), rng=generator(), replicate="seed")
    assert found.of("optimizer").low == pytest.approx(0.9, abs=1e-3)
    assert found.of("seed").high < 1e-8


def test_origin_and_unit_do_not_matter():
    table = planted(generator(8), (3, 2, 4), (0.3, 0.1, 0.1, 0.5))
    values, factors = lines(table)
    expected = variance_shares(values, factors, rng=generator(), replicate="seed")
    for scaled in (1e-200 * values, 1e100 * values, 5 + 1e-6 * values, -values):
        found = variance_shares(scaled, factors, rng=generator(), replicate="seed")
        for effect, other in zip(found.effects, expected.effects, strict=True):
            assert effect[1:] == pytest.approx(other[1:], abs=1e-6)
    assert found.variance == pytest.approx(expected.variance)


# What is missing or degenerate


def test_missing_cells_are_told():
    table = generator(7).normal(size=(4, 3, 2))
    values, factors = lines(table)
    keep = [i for i in range(values.size) if not (factors["optimizer"][i] == 3 and i % 2)]
    part = {name: [column[i] for i in keep] for name, column in factors.items()}
    found = variance_shares(values[keep], part, rng=generator())
    assert found.notes[0] == (
        "3 of 24 cells are missing; without optimizer 3 the grid is complete, which leaves 18 of "
        "21 values."
    )
    expected = variance_shares(*lines(table[:3]), rng=generator())
    for effect in expected.effects:
        assert found.of(*effect.factors).share == pytest.approx(effect.share)


def test_uneven_cells_count_equally():
    table = np.array([[0.0, 1.0], [2.0, 3.0]])
    values, factors = lines(table)
    values = np.r_[values, 3.0, 3.0]
    factors = {name: [*column, 1, 1] for name, column in factors.items()}
    found = variance_shares(values, factors, rng=generator())
    assert found.of("optimizer").share == pytest.approx(0.8)
    assert found.of("repeats").share == 0.0
    assert "hold 1 to 3 values" in found.notes[0]


def test_one_at_a_time_designs_are_refused_and_ranged():
    factors = {
        "optimizer": ["sgd", "sgd", "sgd", "adam", "rmsprop", "sgd"],
        "augment": ["none", "none", "crop", "none", "none", "flip"],
        "seed": [0, 1, 0, 0, 0, 0],
    }
    values = [0.90, 0.92, 0.95, 0.80, 0.99, 0.70]
    with pytest.raises(UserError, match="see one_at_a_time"):
        variance_shares(values, factors, rng=generator(), replicate="seed")
    found = {r.factor: r for r in one_at_a_time(values, factors, replicate="seed")}
    assert found["optimizer"][1:5] == ("adam", "rmsprop", 0.80, 0.99)
    assert found["optimizer"].spread == pytest.approx(np.std([0.91, 0.80, 0.99], ddof=1))
    assert found["augment"][1:5] == ("flip", "crop", 0.70, 0.95)
    assert found["seed"][1:5] == (0, 1, 0.90, 0.92)
    moved = one_at_a_time(values, factors, base={"optimizer": "adam"}, replicate="seed")
    assert [r.factor for r in moved] == ["optimizer"]


def test_ranges_have_intervals_where_levels_have_repeats():
    """Two levels: Student's interval of their difference. Several: covered, equal ones with 0."""
    a, b = [0.90, 0.92, 0.94], [0.80, 0.81, 0.85]
    factors = {"optimizer": list("xxxyyy"), "augment": ["none"] * 6, "seed": [0, 1, 2] * 2}
    (found,) = one_at_a_time(a + b, factors, replicate="seed")[:1]
    expected = scipy.stats.ttest_ind(a, b).confidence_interval(0.95)
    assert (found.least, found.most) == pytest.approx((expected.low, expected.high))
    alone = one_at_a_time(a[:1] + b[:1], {"optimizer": ["x", "y"]})[0]
    assert (alone.least, alone.most) == (None, None)
    rng = generator(14)
    names = {"optimizer": np.repeat(list("uvwx"), 3).tolist(), "seed": [0, 1, 2] * 4}
    held = np.zeros(2)
    for _ in range(300):
        noise = rng.normal(size=(4, 3))
        for place, effect in enumerate((np.zeros(4), np.array([0.0, 1.0, 2.0, 3.0]))):
            table = (effect[:, None] + noise).ravel()
            found = one_at_a_time(table, names, replicate="seed")[0]
            held[place] += found.least <= effect.max() <= found.most
    assert (held >= 0.91 * 300).all()


def test_constant_values_and_constant_factors():
    found = variance_shares(*lines(np.full((2, 3), 0.7)), rng=generator())
    assert found.variance == 0.0 and "no variance" in found.notes[-1]
    found = variance_shares([1, 2, 3], {"seed": [0, 1, 2], "network": ["a"] * 3}, rng=generator())
    assert found.of("seed").share == 1.0
    assert found.notes == ("network has one level and explains nothing.",)


def test_refusals():
    two = {"a": [0, 1]}
    for call, message in (
        (lambda: variance_shares([1, 2], {}, rng=generator()), "factors is empty"),
        (lambda: variance_shares([1, 2, 3], two, rng=generator()), "2 levels for 3 values"),
        (lambda: variance_shares([1, np.nan], two, rng=generator()), "values must be finite"),
        (lambda: variance_shares([1, 2], {"a": [0, 0]}, rng=generator()), "No factor has two"),
        (lambda: variance_shares([1, 2], {"a": [[0], [1]]}, rng=generator()), "list of levels"),
        (lambda: variance_shares([1, 2], {"a": [0, np.nan]}, rng=generator()), "'a' has NaN"),
        (lambda: variance_shares([1, 1e200], two, rng=generator()), "got 1e\\+200"),
        (lambda: variance_shares([1, 2], two, rng=generator(), replicate="b"), "repeat over 'b'"),
        (lambda: variance_shares([1, 2], two, rng=generator(), replicate="a"), "besides a has two"),
        (lambda: variance_shares([1, 2], two, rng=generator()).of("b"), "Unknown effect 'b'"),
        (lambda: one_at_a_time([1, 2], two, base={"b": 0}), "Unknown factor 'b'"),
        (lambda: one_at_a_time([1, 2], two, base={"a": 7}), "level of a '7'"),
    ):
        with pytest.raises(UserError, match=message):
            call()


def test_what_repeats_do_to_uneven_cells_is_the_variance_of_a_difference_of_means():
    """Two levels with 2 and 6 lines: (m1 - m2) / 2 varies by s^2 (1 / 2 + 1 / 6) / 4 on its own."""
    one, other = [0.0, 2.0], [4.0, 6.0, 5.0, 5.0, 4.5, 5.5]
    found = variance_shares(one + other, {"f": [0] * 2 + [1] * 6}, rng=np.random.default_rng(0))
    noise = (np.var(one) * 2 + np.var(other) * 6) / 6
    effect = 2.0**2 - noise * (1 / 2 + 1 / 6) / 4
    assert found.of("f").share == pytest.approx(effect / (effect + noise))
