"""Fast ways give what slow ones give: neighbours, covariances, sharing, files, half precision."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from detector_data import scores
from scipy.spatial.distance import cdist
from sklearn.covariance import EmpiricalCovariance
from sklearn.neighbors import NearestNeighbors

from oodometer.detectors import _arrays, _gaussians, _neighbors
from oodometer.detectors._neighbors import Neighbors, as_given, on_unit_sphere
from oodometer.errors import UserError
from oodometer.lab.asking.extract import extract
from oodometer.lab.asking.probes import layers as probe_layers
from oodometer.outputs import Head, Outputs
from oodometer.registry import DETECTORS
from oodometer.scoring import score
from oodometer.testing import toy_outputs


def labelled(features: np.ndarray, labels: np.ndarray, classes: int = 4) -> Outputs:
    """Outputs with a head that takes these features."""
    values = torch.tensor(features)
    weight = torch.tensor(np.random.default_rng(9).normal(size=(classes, values.shape[1])))
    head = Head(weight.to(values), torch.arange(classes).to(values))
    return Outputs(features=values, labels=torch.tensor(labels), head=head)


# --- neighbours -------------------------------------------------------------------------------


def cloud(kind: str, rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    fixed = np.random.default_rng(77)
    plain = rng.normal(size=(rows, 10))
    return {
        "plain": lambda: plain,
        # As after long training: samples of a class all but coincide.
        "collapsed": lambda: fixed.normal(size=(5, 10))[np.arange(rows) % 5] + 1e-7 * plain,
        "far away": lambda: 1e4 + plain,
        "huge": lambda: 1e6 * plain,
        "beyond float32": lambda: 1e150 * plain,
        "tiny": lambda: 1e-150 * plain,
        "one unit dominates": lambda: plain * np.array([1e8, *[1.0] * 9]),
        "duplicates": lambda: np.repeat(plain, 7, axis=0)[:rows],
        "periodic": lambda: plain + 10 * (np.arange(rows) % 13 == 0)[:, None],
    }[kind]()


CLOUDS = [
    "plain", "collapsed", "far away", "huge", "beyond float32", "tiny", "one unit dominates",
    "duplicates", "periodic",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", CLOUDS)
@pytest.mark.parametrize("memory", [2**26, 6000])
def test_ranks_are_those_of_brute_force(
    kind: str, dtype: type, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if dtype is np.float32 and kind in ("beyond float32", "tiny"):
        pytest.skip("float32 cannot hold these numbers")
    monkeypatch.setattr(_arrays, "BLOCK_BYTES", memory)
    bank, asked = (cloud(kind, rows, seed).astype(dtype) for rows, seed in ((1500, 0), (40, 1)))
    exact = np.sort(cdist(asked.astype(np.float64), bank.astype(np.float64)), axis=1)
    search = Neighbors(torch.tensor(bank), as_given)
    ranks = (1, 2, 10, 300, 1500)
    places = search.ranked(torch.tensor(asked), ranks)
    found = search.distances(torch.tensor(asked), places).numpy()
    np.testing.assert_allclose(found, exact[:, [rank - 1 for rank in ranks]], rtol=1e-12)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("kind", ["plain", "collapsed", "far away", "duplicates"])
def test_neighbours_of_the_bank_itself_are_sklearns(kind: str, normalize: bool) -> None:
    bank = cloud(kind, 700, 0)
    prepared = bank / np.linalg.norm(bank, axis=1, keepdims=True) if normalize else bank
    expected, _ = NearestNeighbors(n_neighbors=20, algorithm="brute").fit(prepared).kneighbors()
    search = Neighbors(torch.tensor(bank), on_unit_sphere if normalize else as_given)
    places = search.nearest(torch.tensor(bank), 20, skip_self=True)
    found = search.distances(torch.tensor(bank), places).numpy()
    exact = np.sort(cdist(prepared, prepared) + np.diag([np.inf] * 700), axis=1)[:, :20]
    assert not (places == torch.arange(700)[:, None]).any()
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-15)
    if kind == "plain":
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("guess", [-1.0, 0.0, np.inf])
def test_a_wrong_guess_of_how_far_neighbours_reach_costs_time_only(
    guess: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing, some and everything within the limit; everything at once exceeds the room."""
    monkeypatch.setattr(_neighbors, "_TILE_ROWS", 100)
    limits = lambda sample, *_: np.full(len(sample), guess, np.float32)  # noqa: E731
    monkeypatch.setattr(_neighbors, "limits_from", limits)
    bank, asked = cloud("plain", 900, 0), cloud("plain", 30, 1)
    search = Neighbors(torch.tensor(bank), as_given)
    exact = np.sort(cdist(asked, bank), axis=1)
    found = search.distances(torch.tensor(asked), search.ranked(torch.tensor(asked), (3, 150)))
    np.testing.assert_allclose(found, exact[:, [2, 149]], rtol=1e-12)
    found = search.distances(torch.tensor(asked), search.nearest(torch.tensor(asked), 40))
    np.testing.assert_allclose(found, exact[:, :40], rtol=1e-12)


@pytest.mark.parametrize("width", [2, 64, 512])
@pytest.mark.parametrize("spread", [0.05, 1e-4])
def test_float32_errs_less_than_what_is_settled_in_float64(width: int, spread: float) -> None:
    """Two clusters: all products of a row have one sign, and rounding adds up."""
    rng = np.random.default_rng(0)
    side = lambda rows: np.where(np.arange(rows) % 2, 0.7391, -0.7391)[:, None]  # noqa: E731
    bank, asked = (side(n) + spread * rng.normal(size=(n, width)) for n in (2000, 100))
    search = Neighbors(torch.tensor(bank), as_given)
    centre, radius = (part.numpy() for part in search._frame)
    rows, queries = (bank - centre) / radius, (asked - centre) / radius
    size = np.maximum(1, np.linalg.norm(queries, axis=1, keepdims=True))
    exact = ((rows**2).sum(1) / 2 - queries @ rows.T) / size
    (_, tile), order = next(search._tiles(2000)), search._asked(torch.tensor(asked))
    assert np.abs((order @ tile.T).double().numpy() - exact).max() < search._gap / 2


def test_copies_are_found_whatever_their_hash_says(monkeypatch: pytest.MonkeyPatch) -> None:
    bank = np.random.default_rng(0).integers(0, 2, (400, 7)).astype(np.float32)
    _, first, group = np.unique(bank, axis=0, return_index=True, return_inverse=True)
    search = Neighbors(torch.tensor(bank), as_given)
    np.testing.assert_array_equal(search._copies, first[group])
    monkeypatch.setattr(torch, "randint", lambda *_, **__: torch.zeros(7, dtype=torch.int64))
    colliding = Neighbors(torch.tensor(bank), as_given)._copies  # sums of bits: many are equal
    assert all((bank[place] == bank[row]).all() for row, place in enumerate(colliding))


@pytest.mark.parametrize("kind", ["collapsed", "duplicates"])
def test_many_ties_are_those_of_brute_force(kind: str) -> None:
    """So many rows at one distance that the candidates of float32 do not cover them."""
    bank = np.tile(cloud(kind, 60, 0), (40, 1)).astype(np.float32)
    asked = np.concatenate([bank[:20], cloud("plain", 20, 1).astype(np.float32)])
    exact = np.sort(cdist(asked.astype(np.float64), bank.astype(np.float64)), axis=1)
    search = Neighbors(torch.tensor(bank), as_given)
    places = search.nearest(torch.tensor(asked), 70)
    assert all(len(row.unique()) == 70 for row in places)
    np.testing.assert_allclose(search.distances(torch.tensor(asked), places), exact[:, :70])
    ranks = (1, 39, 40, 41, 500, 2400)
    found = search.distances(torch.tensor(asked), search.ranked(torch.tensor(asked), ranks))
    np.testing.assert_allclose(found, exact[:, [rank - 1 for rank in ranks]])


def test_no_queries_have_no_neighbours() -> None:
    search = Neighbors(torch.zeros(5, 3), as_given)
    assert search.nearest(torch.zeros(0, 3), 2).shape == (0, 2)
    assert search.ranked(torch.zeros(0, 3), (1, 5)).shape == (0, 2)


def test_one_search_serves_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two data sets, with and without normalisation: four searches for ten settings."""
    calls = []
    ranked = Neighbors.ranked

    def counted(self: Neighbors, queries: torch.Tensor, ranks: tuple[int, ...]) -> torch.Tensor:
        calls.append(ranks)
        return ranked(self, queries, ranks)

    monkeypatch.setattr(Neighbors, "ranked", counted)
    parts = {"train": toy_outputs(1200, 0), "test": toy_outputs(30, 1), "ood": toy_outputs(30, 2)}
    own = {name: part.copy() for name, part in parts.items()}
    table = score(own, ["knn"], grid=True)
    assert len(table.rows) == 20 and not table.missing
    assert calls == [(50, 100, 200, 500, 1000)] * 4
    for row in table.rows:
        alone = scores(f"knn({row.setting})", parts["train"].copy(), parts[row.dataset].copy())
        np.testing.assert_array_equal(row.scores, alone)


def test_a_share_of_the_bank_is_a_choice() -> None:
    train, test = toy_outputs(1000, 0), toy_outputs(25, 1)
    found = scores("knn(k=5, share=0.1, normalize=False)", train, test)
    every = cdist(test.features.numpy(), train.features.numpy())
    full = np.sort(every, axis=1)[:, 4]
    assert (found > full).all()  # fewer candidates: farther neighbours
    assert all(min(abs(row - value)) < 1e-9 for row, value in zip(every, found, strict=True))
    np.testing.assert_array_equal(
        found, scores("knn(k=5, share=0.1, normalize=False)", train, test)
    )
    with pytest.raises(UserError, match="k of 'knn' must be at most 100, .* got 101"):
        scores("knn(k=101, share=0.1)", train, test)
    with pytest.raises(UserError, match="share of 'knn' must be above 0 and at most 1, got 0"):
        scores("knn(share=0)", train, test)


# --- covariances ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_far_from_zero_are_those_of_extended_precision(
    dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mean 1e4 times the spread; NumPy's 80-bit floats are the witness, on the same numbers."""
    monkeypatch.setattr(_arrays, "BLOCK_BYTES", 3000)
    rng = np.random.default_rng(0)
    labels = np.arange(400) % 3
    values = (1e4 + rng.normal(size=(400, 6)) + labels[:, None]).astype(dtype)
    found = _gaussians.moments(torch.tensor(values), torch.tensor(labels))
    exact = values.astype(np.longdouble)
    gaps = [exact[labels == c] - exact[labels == c].mean(0) for c in range(3)]
    within = sum(gap.T @ gap for gap in gaps) / 400
    around = exact - exact.mean(0)
    for ours, theirs in ((found.within, within), (found.total, around.T @ around / 400)):
        np.testing.assert_allclose(ours.numpy(), theirs.astype(np.float64), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("space", ["features", "logits"])
def test_one_covariance_per_class_is_sklearns(space: str) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 300)
    sizes = np.array([1.0, 1.2, 1.5, 2.0])[labels][:, None]
    train = labelled(rng.normal(size=(300, 6)) * sizes + 3 * labels[:, None], labels)
    test = labelled(4 + 5 * rng.normal(size=(40, 6)), np.zeros(40, int))
    x, rows = (getattr(part, space).numpy() for part in (train, test))
    each = [EmpiricalCovariance().fit(x[labels == c]).mahalanobis(rows) for c in range(4)]
    found = scores(f"mahalanobis(space={space}, covariance=per_class)", train, test)
    np.testing.assert_allclose(found, np.min(each, axis=0), rtol=1e-7)
    assert len({int(place) for place in np.argmin(each, axis=0)}) > 1


def test_a_class_of_one_sample_borrows_the_shared_covariance() -> None:
    rng = np.random.default_rng(0)
    labels = np.array([0] * 60 + [1] * 60 + [2])
    x = rng.normal(size=(121, 5)) + 8 * labels[:, None]
    train, test = labelled(x, labels), labelled(x[120:] + 0.3, np.array([2]))
    within = sum(np.cov(x[labels == c].T, bias=True) * 60 for c in (0, 1)) / 121
    gap = np.full(5, 0.3)
    expected = gap @ np.linalg.inv(within) @ gap
    found = scores("mahalanobis(covariance=per_class)", train, test)
    np.testing.assert_allclose(found, [expected], rtol=1e-8)


@pytest.mark.parametrize("rows", [2, 5, 30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("small", [1.0, 1e-3])
def test_few_samples_are_fitted_by_what_they_span(
    rows: int, dtype: torch.dtype, small: float
) -> None:
    """The way over the whole covariance is the witness; inside the span, the pseudo-inverse."""
    rng = np.random.default_rng(rows)
    mix = rng.normal(size=(64, 64)) * np.geomspace(small, 1, 64)
    values = torch.tensor(rng.normal(size=(rows, 64)) @ mix + 9).to(dtype)
    values[:, 3] = 0.0
    asked = torch.cat([values[:2], values.flip(0)[:2] + 0.1, 5 * values[:2].abs()]).double()
    known = _gaussians.moments(values, torch.zeros(rows, dtype=torch.int64))
    whole, flat = _gaussians.around_classes(known), _gaussians._flat(values)
    assert flat is not None and flat.directions.shape[1] == rows - 1
    expected = whole.squared_distance(asked)
    torch.testing.assert_close(flat.squared_distance(asked), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(flat.log_volume, whole.log_volume, rtol=1e-9, atol=1e-9)
    gap = values[:2].double() - values.double().mean(0)
    inverse = torch.linalg.pinv(known.within, rtol=1e-11, hermitian=True)
    inside = torch.einsum("nd,de,ne->n", gap, inverse, gap)
    torch.testing.assert_close(flat.squared_distance(asked[:2]), inside, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("detector", ["mahalanobis", "relative_mahalanobis", "gaussian_mixture"])
def test_one_huge_row_does_not_drown_the_digits_of_others(detector: str) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3
    x = rng.normal(size=(300, 6)) + 3 * labels[:, None]
    x[7] *= 1e4
    exact, single = (
        scores(
            detector,
            *(
                typed(labelled(*part), dtype)
                for part in ((x, labels), (x[20:60] + 0.5, labels[20:60]))
            ),
        )
        for dtype in (torch.float64, torch.float32)
    )
    np.testing.assert_allclose(single, exact, rtol=0.02, atol=0.02)


def typed(outputs: Outputs, dtype: torch.dtype) -> Outputs:
    """Return the same numbers in another type."""
    head = Head(outputs.head.weight.to(dtype), outputs.head.bias.to(dtype))
    return Outputs(features=outputs.features.to(dtype), labels=outputs.labels, head=head)


def test_covariances_beyond_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_arrays, "BLOCK_BYTES", 500)
    train = toy_outputs(100, 0).copy()
    with pytest.raises(UserError, match="cannot be per_class here: 5 covariances of width 64"):
        scores("mahalanobis(covariance=per_class)", train, train)


def test_residual_by_singular_values() -> None:
    rng = np.random.default_rng(0)
    train = labelled(rng.normal(size=(80, 9)) * np.arange(1, 10), np.arange(80) % 4)
    test = labelled(rng.normal(size=(20, 9)), np.zeros(20, int))
    weight, bias = train.head.weight.numpy(), train.head.bias.numpy()
    origin = np.linalg.lstsq(weight, -bias, rcond=None)[0]
    main = np.linalg.svd(train.features.numpy() - origin)[2][:6]
    gap = test.features.numpy() - origin
    expected = np.linalg.norm(gap - gap @ main.T @ main, axis=1)
    np.testing.assert_allclose(scores("residual(kept=6)", train, test), expected, rtol=1e-9)


# --- corners ----------------------------------------------------------------------------------

MINE = ["mahalanobis", "relative_mahalanobis", "knn", "local_outlier_factor", "vim", "residual"]


def corner(name: str) -> Outputs:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 12))
    made = {
        "constant features": lambda: labelled(np.full((60, 12), 0.3), np.arange(60) % 4),
        "copied classes": lambda: labelled(np.tile(x[:15], (4, 1)), np.repeat(np.arange(4), 15)),
        "one sample per class": lambda: labelled(x[:4], np.arange(4)),
        "one class": lambda: labelled(x, np.zeros(60, int), classes=1),
        "1000 classes": lambda: labelled(x, np.arange(60) % 1000, classes=1000),
        "norms of 1e6": lambda: labelled(1e6 * x, np.arange(60) % 4),
        "wider than long": lambda: labelled(rng.normal(size=(20, 300)), np.arange(20) % 4),
        "half precision": lambda: labelled(x.astype(np.float16), np.arange(60) % 4),
    }
    return made[name]()


CORNERS = [
    "constant features", "copied classes", "one sample per class", "one class", "1000 classes",
    "norms of 1e6", "wider than long", "half precision",
]  # fmt: skip


@pytest.mark.parametrize("name", CORNERS)
@pytest.mark.parametrize("detector", MINE)
def test_corners_give_finite_scores_or_a_sentence(name: str, detector: str) -> None:
    train = corner(name)
    values = train.features
    noise = torch.tensor(np.random.default_rng(3).normal(size=values.shape)).to(values)
    for settings in DETECTORS[detector].settings():
        fitted = None
        try:
            fitted = DETECTORS[detector].fit(train, **settings)
        except UserError as problem:
            assert "must be at most" in str(problem)  # more neighbours than samples
            continue
        for test in (train, Outputs(features=noise, head=train.head)):
            assert fitted(test).isfinite().all()


def test_a_caller_may_write_into_scores() -> None:
    train, test = toy_outputs(200, 0).copy(), toy_outputs(20, 1).copy()
    for name in MINE:
        fitted = DETECTORS[name].fit(train)
        first = fitted(test)
        kept = first.clone()
        first.zero_()
        assert torch.equal(fitted(test), kept), name


# --- half precision, files, memory --------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_read_in_full(dtype: torch.dtype) -> None:
    whole = toy_outputs(60, 0)
    head = Head(whole.head.weight.to(dtype), whole.head.bias.to(dtype))
    with torch.no_grad():
        logits = whole.features.to(dtype) @ head.weight.to(dtype).T + head.bias.to(dtype)
    half = Outputs(logits=logits, features=whole.features.to(dtype), head=head)
    assert half.features.dtype == half.logits.dtype == torch.float32
    assert half.take(torch.arange(5)).logits.shape == (5, 5)  # still fits its head
    np.testing.assert_allclose(half.logits, whole.logits, rtol=0.02, atol=0.3)
    only = Outputs(logits=whole.logits.to(dtype))
    assert torch.equal(only.logits, whole.logits.to(dtype).float())
    with pytest.raises(UserError, match=r"logits differ from head\(features\)"):
        Outputs(logits=logits, features=whole.features.to(dtype).flip(0), head=head)


def test_half_precision_arrays_are_read_in_full() -> None:
    arrays = {name: tensor.numpy() for name, tensor in toy_outputs(60, 0).tensors().items()}
    half = Outputs(features=arrays["features"].astype(np.float16), labels=arrays["labels"])
    assert half.features.dtype == torch.float32


def test_a_mapped_file_is_read_in_place(tmp_path: Path) -> None:
    whole = toy_outputs(500, 0, dtype=torch.float32)
    np.save(tmp_path / "features.npy", whole.features.numpy())
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    outputs = Outputs(features=mapped, labels=whole.labels, head=whole.head)
    assert outputs.features.data_ptr() == mapped.ctypes.data
    test = toy_outputs(30, 1, dtype=torch.float32)
    own = whole.copy()
    for name in MINE:
        np.testing.assert_array_equal(scores(name, outputs, test.copy()), scores(name, own, test))
    changed = np.load(
        tmp_path / "features.npy", mmap_mode="c"
    )  # what is changed is not in the file
    changed[0, 0] = 7.0
    kept = Outputs(features=changed)
    assert kept.features.data_ptr() != changed.ctypes.data and kept.features[0, 0] == 7.0


def test_a_bad_number_in_a_file_is_found(tmp_path: Path) -> None:
    values = np.zeros((50, 4), np.float32)
    values[33, 2] = np.nan
    np.save(tmp_path / "features.npy", values)
    with pytest.raises(UserError, match="1 of 50 rows hold NaN or infinity, the first at row 33"):
        Outputs(features=np.load(tmp_path / "features.npy", mmap_mode="r"))
    # A sum that overflows is not yet a bad number.
    Outputs(features=np.full((50, 4), 1e308))


def test_working_memory_changes_nothing_but_the_blocks() -> None:
    def parts() -> dict[str, Outputs]:
        sizes = {"train": (900, 0), "test": (60, 1), "ood": (60, 2)}
        return {name: toy_outputs(*size).copy() for name, size in sizes.items()}

    before = _arrays.BLOCK_BYTES
    whole = score(parts(), MINE)
    little = score(parts(), MINE, memory=2**20)
    assert before == _arrays.BLOCK_BYTES
    for first, second in zip(whole.rows, little.rows, strict=True):
        np.testing.assert_allclose(first.scores, second.scores, rtol=1e-9)
    for wrong in (0, -5, 1.5, True, "2GB"):
        with pytest.raises(UserError, match="memory must be a whole number of bytes, at least"):
            score(parts(), MINE, memory=wrong)


# --- the pass -----------------------------------------------------------------------------------


class Reshaping(torch.nn.Module):
    """A network that reshapes with `view`, which needs the usual layout."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 6, 3)
        self.head = torch.nn.Linear(6 * 36, 4)
        self.failed = 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        maps = self.convolution(images).relu()
        self.failed += not maps.is_contiguous()
        return self.head(maps.view(len(images), -1))


@pytest.mark.parametrize("reshaping", [True, False])
def test_the_fast_layout_answers_the_same_and_leaves_no_trace(reshaping: bool) -> None:
    torch.manual_seed(0)
    chain = [torch.nn.Conv2d(3, 6, 3), torch.nn.ReLU(), torch.nn.Flatten()]
    plain = torch.nn.Sequential(*chain, torch.nn.Linear(6 * 36, 4))
    model = Reshaping() if reshaping else plain
    before = [(weight.data_ptr(), weight.stride()) for weight in model.parameters()]
    images = torch.rand(50, 3, 8, 8)
    outputs = extract(model, {"test": images}, batch_size=20)["test"]
    with torch.no_grad():
        torch.testing.assert_close(outputs.logits, model(images), rtol=1e-5, atol=1e-6)
    assert [(weight.data_ptr(), weight.stride()) for weight in model.parameters()] == before
    if isinstance(model, Reshaping):
        assert model.failed == 1  # it was tried once, and not again


def test_rankfeat_goes_on_behind_a_stage_as_the_whole_network_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A chain that uses one module twice; the witness runs all of it again."""
    torch.manual_seed(0)
    relu = torch.nn.ReLU(inplace=True)
    parts = [torch.nn.Conv2d(3, 6, 3), relu, torch.nn.Conv2d(6, 8, 3), relu, torch.nn.Flatten()]
    model = torch.nn.Sequential(*parts, torch.nn.Linear(8 * 16, 5), relu, torch.nn.Linear(5, 4))
    images = {"test": torch.rand(30, 3, 8, 8)}
    ask = lambda: extract(model.eval(), images, needs=["probe:rankfeat"], layers=["0", "2"])  # noqa: E731
    quick = ask()["test"].probes["rankfeat"]
    monkeypatch.setattr(probe_layers, "_behind", lambda question, stage: None)
    torch.testing.assert_close(quick, ask()["test"].probes["rankfeat"])


def test_the_leading_part_is_that_of_singular_values() -> None:
    """Also where two singular values are close or equal, and where there is nothing."""
    generator = torch.Generator().manual_seed(0)
    left, right = (
        torch.linalg.qr(torch.randn(4, 9, 5, generator=generator, dtype=torch.float64))[0]
        for _ in range(2)
    )
    sizes = torch.tensor([[5, 1, 0.5, 0.1, 0], [1, 0.999, 0.5, 0.1, 0], [2, 2, 1, 1, 1], [0] * 5])
    maps = left * sizes.double()[:, None] @ right.mT
    rest = torch.linalg.svdvals(probe_layers.without_leading(maps))[:, :5]
    expected = sizes.double().sort(1, descending=True).values
    expected[:, 0] = 0
    torch.testing.assert_close(rest, expected.sort(1, descending=True).values, atol=1e-7, rtol=0)
