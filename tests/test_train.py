"""Training: every optimizer, schedule and rule against its formula; interrupted, the same bytes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from oodometer.engine.work.codecs import arrays_to_bytes, bytes_to_arrays
from oodometer.errors import UserError
from oodometer.lab.data.portions import portion_rows, split_portions
from oodometer.lab.data.samples import Images
from oodometer.lab.data.sources import load_source
from oodometer.lab.training.curves import best_epoch, epochs_without_gain
from oodometer.lab.training.losses import as_probabilities, make_loss
from oodometer.lab.training.optimizers import OPTIMIZERS, make_optimizer, usual_rate
from oodometer.lab.training.schedules import make_schedule, make_stopping
from oodometer.lab.training.task import CLASSIFIER
from oodometer.lab.training.train import Training, _one_thread, check_spec, train
from oodometer.study import TrainSpec


def spec(**changes: object) -> TrainSpec:
    return TrainSpec(**({"data": "digits", "network": "mlp", "epochs": 2} | changes))


@pytest.fixture(scope="module")
def digits():
    return load_source(TrainSpec(data="digits"))


def tiny_norm_net(channels: int, height: int, width: int, classes: int) -> nn.Module:
    """A network with batch normalization of single vectors, for ``test_train:tiny_norm_net``."""
    size = channels * height * width
    return nn.Sequential(
        nn.Flatten(), nn.Linear(size, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, classes)
    )


# ---- optimizers --------------------------------------------------------------------------------

CURVATURE, START = np.array([1.0, 4.0, 0.25]), np.array([1.0, -2.0, 3.0])
TINY = 1e-7


def by_torch(text: str, rate: float | None, decay: float = 0.0, steps: int = 20) -> np.ndarray:
    """Descend on x -> sum of curvature x^2 / 2 with the optimizer of this name."""
    point = nn.Parameter(torch.from_numpy(START.copy()))
    optimizer = make_optimizer(text, [point], usual_rate(text) if rate is None else rate, decay)
    for _ in range(steps):
        optimizer.zero_grad()
        (torch.from_numpy(CURVATURE) * point**2 / 2).sum().backward()
        optimizer.step()
    return point.detach().numpy()


def by_hand(name: str, decay: float = 0.0, steps: int = 20) -> np.ndarray:
    """The same with the update rules written out, one after another."""
    x, m, v, product = START.copy(), np.zeros(3), np.zeros(3), 1.0
    if name == "adagrad":
        v += 0.1
    for t in range(1, steps + 1):
        g = CURVATURE * x
        if name == "adamw":
            x = x - 1e-3 * decay * x
        else:
            g = g + decay * x
        if name == "sgd":
            x = x - 1e-2 * g
        elif name in ("sgd_momentum", "sgd_nesterov"):
            m = 0.9 * m + g
            x = x - 1e-2 * (m if name == "sgd_momentum" else g + 0.9 * m)
        elif name in ("adam", "adamw"):
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            tiny = TINY if name == "adam" else 1e-8
            x = x - 1e-3 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + tiny)
        elif name == "adamax":
            m, v = 0.9 * m + 0.1 * g, np.maximum(0.999 * v, np.abs(g) + TINY)
            x = x - 1e-3 / (1 - 0.9**t) * m / v
        elif name == "nadam":
            now, later = (0.9 * (1 - 0.5 * 0.96 ** (0.004 * s)) for s in (t, t + 1))
            product *= now
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            ahead = (1 - now) * g / (1 - product) + later * m / (1 - product * later)
            x = x - 1e-3 * ahead / (np.sqrt(v / (1 - 0.999**t)) + TINY)
        elif name == "rmsprop":
            v = 0.9 * v + 0.1 * g**2
            x = x - 1e-3 * g / (np.sqrt(v) + TINY)
        elif name == "adagrad":
            v = v + g**2
            x = x - 1e-2 * g / (np.sqrt(v) + TINY)
        elif name == "adadelta":
            v = 0.95 * v + 0.05 * g**2
            change = np.sqrt(m + TINY) / np.sqrt(v + TINY) * g
            m = 0.95 * m + 0.05 * change**2
            x = x - 0.1 * change
        elif name == "lars":
            plain = CURVATURE * x
            size = np.linalg.norm(x)
            m = 0.9 * m + 0.001 * size / (np.linalg.norm(plain) + decay * size + 1e-8) * g
            x = x - m
        else:
            raise AssertionError(name)
    return x


@pytest.mark.parametrize("decay", [0.0, 0.06])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_follow_their_formulas(name, decay):
    # PyTorch keeps the product of nadam's momenta in float32.
    tolerance = 1e-7 if name == "nadam" else 1e-12
    np.testing.assert_allclose(by_torch(name, None, decay), by_hand(name, decay), rtol=tolerance)


# Where Keras 3.15.1 (float64, its float32 learning rates) gets from the same start in 20 steps.
KERAS = {
    "sgd": (0.8179069413, -0.8840048842, 2.8535096290),
    "sgd_momentum": (0.1178221909, 0.5511706915, 2.1607255389),
    "sgd_nesterov": (0.1152776239, 0.3611555034, 2.1200645044),
    "adam": (0.9800239950, -1.9800119190, 2.9800079605),
    "adamax": (0.9799294190, -1.9799641832, 2.9799761877),
    "nadam(schedule_decay=1)": (0.9835148616, -1.9834962303, 2.9834900438),
    "rmsprop": (0.9715566184, -1.9714933039, 2.9714723532),
    "adagrad": (0.9262194384, -1.9246279373, 2.9262073008),
    "adadelta": (0.9970382523, -1.9970366164, 2.9970360773),
}


@pytest.mark.parametrize("text", KERAS)
def test_optimizers_agree_with_keras(text):
    np.testing.assert_allclose(by_torch(text, None), KERAS[text], rtol=1e-6)


def test_settings_of_optimizers():
    plain = by_torch("sgd_nesterov", 0.01)
    assert np.array_equal(by_torch("sgd(momentum=0.9, nesterov=True)", 0.01), plain)
    assert not np.array_equal(by_torch("adam(beta1=0.5)", None), by_torch("adam", None))
    assert usual_rate("adadelta(rho=0.9)") == 0.1
    assert np.array_equal(by_torch("lars(trust=0)", None), START)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_learns(digits, optimizer):
    rate = {"adadelta": 1.0, "sgd": 0.1, "adagrad": 0.05, "adamax": 0.01, "lars": 20.0}.get(
        optimizer
    )
    made = train(
        spec(optimizer=optimizer, epochs=6, learning_rate=rate), digits.train, digits.classes
    )
    assert made.losses[-1] < 0.6 * made.losses[0]
    assert not made.model.training


# ---- schedules, stopping, best -----------------------------------------------------------------


def rates_over(text: str, base: float, steps: int, epochs: int, curve: dict) -> np.ndarray:
    made = make_schedule(text, epochs)
    return np.array(
        [
            made.rates(base, steps, epochs, {name: v[:epoch] for name, v in curve.items()})
            for epoch in range(epochs)
        ]
    )


def test_cosine_is_that_of_pytorch():
    steps, epochs = 7, 5
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], 0.1)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps * epochs, 1e-6)
    expected = []
    for _ in range(steps * epochs):
        expected.append(theirs.get_last_lr()[0])
        optimizer.step()
        theirs.step()
    ours = rates_over("cosine", 0.1, steps, epochs, {"train_loss": [0.0] * epochs})
    np.testing.assert_allclose(ours.ravel(), expected, rtol=1e-9)


@pytest.mark.parametrize("rise", [0.25, 0.4])
def test_one_cycle_is_that_of_pytorch(rise):
    epochs, steps = 4, 25
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.2)
    theirs = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 0.2, steps * epochs, pct_start=rise, div_factor=20, final_div_factor=50
    )
    expected = []
    for _ in range(epochs * steps):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()
    made = make_schedule(f"one_cycle(rise={rise}, start=0.05, end=0.001)", epochs)
    ours = [
        rate
        for epoch in range(epochs)
        for rate in made.rates(0.2, steps, epochs, {"train_loss": (1.0,) * epoch})
    ]
    assert ours == pytest.approx(expected, rel=1e-9)
    assert max(ours) == pytest.approx(0.2)


@pytest.mark.parametrize(("epochs", "steps"), [(1, 1), (1, 2), (1, 4), (2, 1), (3, 5)])
def test_one_cycle_has_rates_for_the_shortest_training(epochs, steps):
    made = make_schedule("one_cycle", epochs)
    for epoch in range(epochs):
        rates = made.rates(0.2, steps, epochs, {"train_loss": (1.0,) * epoch})
        assert len(rates) == steps and all(0 < rate <= 0.2 for rate in rates)


def test_cosine_warms_up():
    rates = rates_over("cosine(warm_up=2, minimum=0)", 0.6, 3, 4, {"train_loss": [0.0] * 4}).ravel()
    np.testing.assert_allclose(rates[:6], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    angles = np.arange(6) * math.pi / 6
    np.testing.assert_allclose(rates[6:], 0.3 * (1 + np.cos(angles)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("on", ["train_loss", "validation_accuracy"])
def test_plateau_is_that_of_pytorch(seed, on):
    rng = np.random.default_rng(seed)
    falling = 2 * np.exp(-np.arange(60) / 15) + rng.normal(0, 0.05, 60).clip(-0.1, 0.1) + 0.2
    values = falling if on == "train_loss" else 1 / (1 + falling)
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], 0.1)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer,
        "min" if on == "train_loss" else "max",
        factor=0.5,
        patience=2,
        threshold=0.01,
        min_lr=1e-3,
    )
    expected = []
    for value in values:
        expected.append(optimizer.param_groups[0]["lr"])
        theirs.step(value)
    text = f"plateau(on={on}, patience=2, factor=0.5, threshold=0.01, minimum=1e-3)"
    ours = rates_over(text, 0.1, 1, 60, {on: values.tolist()})
    np.testing.assert_allclose(ours.ravel(), expected, rtol=1e-12)
    assert len(set(expected)) > 3


def test_exponential_is_that_of_pytorch_stepped_after_every_batch() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)
    theirs = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
    wanted = []
    for _ in range(12):
        wanted.append(theirs.get_last_lr()[0])
        optimizer.step()
        theirs.step()
    ours = rates_over("exponential(factor=0.97)", 0.1, 4, 3, {"train_loss": [0.0] * 3})
    assert np.allclose(ours.ravel(), wanted)


@pytest.mark.parametrize("factors", ["0.2", "0.5/0.1/8"])
def test_steps_are_those_of_pytorch(factors):
    after = [2, 3, 6]
    by_epoch = dict(zip(after, np.resize([float(f) for f in factors.split("/")], 3), strict=True))
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], 0.1)
    theirs = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda e: by_epoch.get(e, 1.0))
    expected = []
    for _ in range(8):
        expected += theirs.get_last_lr() * 5
        optimizer.step()
        theirs.step()
    ours = rates_over(f"steps(at=2/3/6, factor={factors})", 0.1, 5, 8, {"train_loss": [0.0] * 8})
    np.testing.assert_allclose(ours.ravel(), expected, rtol=1e-12)
    single = rates_over("steps(at=4, factor=0.1)", 1.0, 1, 6, {"train_loss": [0.0] * 6}).ravel()
    np.testing.assert_allclose(single, [1, 1, 1, 1, 0.1, 0.1])


def test_a_minimum_above_the_rate_does_not_raise_it():
    flat = {"train_loss": [1.0] * 9}
    assert (rates_over("plateau(patience=0, minimum=0.1)", 0.01, 1, 9, flat) == 0.01).all()
    assert (rates_over("cosine(minimum=0.1)", 0.01, 2, 9, flat) == 0.01).all()


def test_early_stopping_waits_for_its_patience():
    stopping = make_stopping("early(on=validation_loss, patience=3)")
    losses = [3.0, 2.0, 2.5, 2.0, 2.0, 1.0]
    stops = [stopping.done({"validation_loss": losses[:n]}) for n in range(7)]
    assert stops == [False, False, False, False, False, True, False]
    rising = make_stopping("early(on=validation_accuracy, patience=1)")
    assert not rising.done({"validation_accuracy": [0.1, 0.2]})
    assert rising.done({"validation_accuracy": [0.1, 0.2, 0.2]})


def test_of_equal_accuracies_the_last_is_best_and_of_equal_losses_the_first():
    curve = {"validation_accuracy": [0.5, 0.9, 0.8, 0.9], "validation_loss": [3.0, 1.0, 2.0, 1.0]}
    assert best_epoch(curve, "validation_accuracy") == 4
    assert best_epoch(curve, "validation_loss") == 2
    assert epochs_without_gain(curve, "validation_accuracy") == 2, "a tie is no gain"


# ---- losses ------------------------------------------------------------------------------------


def test_losses_are_their_formulas():
    rng = torch.Generator().manual_seed(0)
    z = torch.randn(5, 3, generator=rng, dtype=torch.float64)
    y = torch.tensor([0, 2, 1, 1, 0])
    one_hot, powers = np.eye(3)[y.numpy()], np.exp(z.numpy())
    log_p = np.log(powers / powers.sum(1, keepdims=True))
    sigmoid = powers / (1 + powers)
    expected = {
        "cross_entropy": -(one_hot * log_p).sum(1).mean(),
        "logistic": -np.where(one_hot, np.log(sigmoid), np.log(1 - sigmoid)).mean(),
        "label_smoothing(amount=0.3)": -((0.7 * one_hot + 0.1) * log_p).sum(1).mean(),
    }
    for text, value in expected.items():
        loss = make_loss(text)
        assert loss(z, y).item() == pytest.approx(value, rel=1e-12)
        soft = as_probabilities(y, 3, torch.float64)
        assert loss(z, soft).item() == pytest.approx(value, rel=1e-12), "one-hot targets"


# ---- what is trained on ------------------------------------------------------------------------


def test_a_subsample_is_balanced_as_far_as_the_classes_allow():
    labels = np.repeat(np.arange(4), [3, 50, 60, 70])
    rows, aside = portion_rows(spec(train_size=63), labels)
    assert np.bincount(labels[rows]).tolist() == [3, 20, 20, 20] and not len(aside)
    fewer, _ = portion_rows(spec(train_size=10), labels)
    assert set(fewer) < set(rows)
    other, _ = portion_rows(spec(train_size=63, split=1), labels)
    assert set(other) != set(rows)


def test_validation_is_stratified_and_disjoint():
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(4), [1, 10, 25, 64]))
    rows, aside = portion_rows(spec(validation=0.2), labels)
    assert sorted([*rows, *aside]) == list(range(100)) and len(aside) == 20
    assert np.bincount(labels[aside], minlength=4).tolist() == [0, 2, 5, 13]
    again = portion_rows(spec(validation=0.2, seed=5), labels)
    assert np.array_equal(aside, again[1]), "another seed of the weights, the same split"
    other = portion_rows(spec(validation=0.2, split=1), labels)
    assert not np.array_equal(aside, other[1])
    most = portion_rows(spec(validation=0.99), labels)
    assert set(labels[most[0]]) == {0, 1, 2, 3}, "no class is lost"


def test_noise_is_in_what_is_trained_on_and_not_in_the_validation_part(digits):
    clean = split_portions(spec(validation=0.2), digits.train, 10)
    noisy = split_portions(spec(validation=0.2, label_noise="uniform(rate=0.25)"), digits.train, 10)
    assert np.array_equal(clean[1].labels, noisy[1].labels)
    assert np.array_equal(clean[0].pixels, noisy[0].pixels)
    changed = (clean[0].labels != noisy[0].labels).sum()
    assert changed == round(0.25 * len(clean[0]))


def test_noisy_labels_from_a_file_are_for_the_whole_training_set(digits, tmp_path):
    shifted = (digits.train.labels + 1) % 10
    np.savetxt(tmp_path / "labels.txt", shifted, fmt="%d")
    text = f"file(path={tmp_path / 'labels.txt'})"
    part, aside = split_portions(spec(validation=0.2, label_noise=text), digits.train, 10)
    rows, _ = portion_rows(spec(validation=0.2), digits.train.labels)
    assert np.array_equal(part.labels, shifted[rows])
    assert aside is not None and len(aside) + len(part) == len(digits.train)


def test_bytes_and_floats_train_alike():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (40, 1, 8, 8)).astype(np.uint8)
    labels = np.arange(40) % 4
    floats = Images("floats", pixels.astype(np.float32) / np.float32(255), labels)
    pixels.flags.writeable = False
    octets = Images("bytes", pixels, labels)
    one, two = (train(spec(network="small_cnn"), images, 4) for images in (floats, octets))
    assert one.losses == two.losses


# ---- training ----------------------------------------------------------------------------------


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_training_is_the_plain_loop(digits):
    """With nothing asked for, training is what anybody would write."""
    made = train(spec(), digits.train, 10)
    model = CLASSIFIER.fresh_network(spec(), (1, 8, 8), 10)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, eps=1e-7)
    order = torch.Generator().manual_seed(0)
    x, y = torch.from_numpy(digits.train.pixels), torch.from_numpy(digits.train.labels)
    with _one_thread():  # more of them add up in another order
        for _ in range(2):
            for rows in torch.split(torch.randperm(len(y), generator=order), 32):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
                optimizer.step()
    assert torch.equal(flat(made.model), flat(model))


def test_training_repeats_bit_for_bit_and_depends_on_the_seed(digits):
    def weights(seed: int) -> torch.Tensor:
        torch.rand(seed + 1)  # the global state must not matter
        state, threads = torch.get_rng_state(), torch.get_num_threads()
        made = train(
            spec(network="cnn", width=4, epochs=1, seed=seed, train_size=200), digits.train, 10
        )
        assert torch.equal(state, torch.get_rng_state()), "training touched the global state"
        assert torch.get_num_threads() == threads
        return flat(made.model)

    assert torch.equal(weights(3), weights(3))
    assert not torch.equal(weights(3), weights(4))


FULL = {"train_size": 150, "validation": 0.2, "epochs": 4, "epoch": "best"}
INTERRUPTED = {
    "adam": {},
    "sgd_momentum, plateau": {
        "optimizer": "sgd_momentum",
        "schedule": "plateau(on=validation_loss, patience=0, threshold=0.2)",
    },
    "dropout, cosine": {"network": "cnn", "width": 4, "schedule": "cosine(warm_up=1)"},
    "mixup": {"network": "small_cnn", "width": 4, "augment": "mixup", "loss": "logistic"},
    "crop_flip, early": {
        "network": "small_cnn",
        "width": 4,
        "augment": "crop_flip",
        "stopping": "early(on=validation_accuracy, patience=2)",
        "label_noise": "uniform(rate=0.2)",
        "loss": "label_smoothing",
    },
    "batch norm": {"network": "test_train:tiny_norm_net", "best_by": "train_loss"},
} | {
    name: {"optimizer": name, "network": "small_cnn", "width": 4, "weight_decay": 0.01}
    for name in OPTIMIZERS
}


@pytest.mark.parametrize("changes", INTERRUPTED.values(), ids=INTERRUPTED)
def test_interrupted_after_any_epoch_it_ends_with_the_same_bytes(digits, changes, monkeypatch):
    monkeypatch.syspath_prepend(str(__file__).rpartition("/")[0])
    wanted = spec(**(FULL | changes))

    def fresh() -> Training:
        return Training(wanted, digits.train, 10, checkpoints=["train_loss"])

    whole, parts = fresh(), []
    while not whole.finished:
        whole.run_epoch()
        parts.append(arrays_to_bytes(whole.snapshot()))
    for kept in parts:
        resumed = fresh()
        torch.rand(3)
        resumed.restore(bytes_to_arrays(kept))
        while not resumed.finished:
            resumed.run_epoch()
        assert arrays_to_bytes(resumed.snapshot()) == parts[-1]
        assert resumed.curve == whole.curve


def test_the_epoch_that_is_asked_for(digits):
    base = {"validation": 0.2, "train_size": 300, "epochs": 6, "learning_rate": 0.02}
    last = train(spec(**base), digits.train, 10)
    third = train(spec(**base, epoch=3), digits.train, 10)
    short = train(spec(**base | {"epochs": 3}), digits.train, 10)
    assert (last.epoch, third.epoch) == (6, 3) and len(third.losses) == 3
    assert torch.equal(flat(third.model), flat(short.model))
    for measure in ("validation_accuracy", "validation_loss", "train_loss"):
        best = train(spec(**base, epoch="best", best_by=measure), digits.train, 10)
        assert best.epoch == best_epoch(last.curve, measure) and best.curve == last.curve
        same = train(spec(**base, epoch=best.epoch), digits.train, 10)
        assert torch.equal(flat(best.model), flat(same.model))


def test_the_curve_tells_what_the_model_does(digits):
    made = train(spec(validation=0.3, schedule="cosine", epochs=3), digits.train, 10)
    assert {name: len(values) for name, values in made.curve.items()} == dict.fromkeys(
        ("train_loss", "train_accuracy", "learning_rate", "validation_loss", "validation_accuracy"),
        3,
    )
    _, aside = split_portions(spec(validation=0.3), digits.train, 10)
    with torch.no_grad():
        logits = made.model(torch.from_numpy(aside.pixels))
    labels = torch.from_numpy(aside.labels)
    accuracy = (logits.argmax(1) == labels).double().mean().item()
    assert made.curve["validation_accuracy"][-1] == pytest.approx(accuracy, abs=1e-12)
    loss = nn.functional.cross_entropy(logits, labels).item()
    assert made.curve["validation_loss"][-1] == pytest.approx(loss, rel=1e-5)
    assert made.curve["learning_rate"][0] == 1e-3 > made.curve["learning_rate"][2] > 1e-6


def test_early_stopping_stops(digits):
    made = train(
        spec(
            epochs=500,
            train_size=100,
            validation=0.3,
            learning_rate=0.03,
            stopping="early(patience=3)",
            epoch="best",
            best_by="validation_loss",
        ),
        digits.train,
        10,
    )
    assert len(made.losses) < 500 and made.epoch == len(made.losses) - 3


def test_weight_decay_shrinks_weights(digits):
    sizes = [
        flat(train(spec(optimizer="sgd", weight_decay=decay), digits.train, 10).model).norm()
        for decay in (0.0, 0.1)
    ]
    assert sizes[1] < 0.95 * sizes[0]


def test_a_last_batch_of_one_joins_the_one_before_if_the_network_normalizes(monkeypatch, digits):
    monkeypatch.syspath_prepend(str(__file__).rpartition("/")[0])
    own = {"network": "test_train:tiny_norm_net", "epochs": 1}
    made = train(spec(**own, train_size=33, batch_size=32), digits.train, 10)
    assert math.isfinite(made.losses[0])
    tracked = dict(made.model.named_buffers())["2.num_batches_tracked"]
    assert int(tracked) == 1
    with pytest.raises(UserError, match="batch normalization, which needs at least 2 images"):
        train(spec(**own, train_size=33, batch_size=1), digits.train, 10)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"epochs": 1}, "in epoch 1, the loss is (nan|inf)"),
        ({"batch_size": 5000}, "in epoch 2, the loss is (nan|inf)"),
        ({"batch_size": 5000, "weight_decay": 1e3}, "in epoch 1, the weights '.*' are not finite"),
    ],
)
def test_divergence_is_told(digits, changes, sentence):
    with pytest.raises(UserError, match=f"diverged: {sentence}.*rate 1e[+]38; a smaller one may"):
        train(spec(optimizer="sgd", learning_rate=1e38, **changes), digits.train, 10)


def test_a_class_without_images_leaves_training_finite(digits):
    two = digits.train.take(np.flatnonzero(digits.train.labels < 2))
    assert math.isfinite(train(spec(), two, 10).losses[-1])
    with pytest.raises(UserError, match="lie between 0 and 9, but the classifier has .* 0 to 4"):
        train(spec(), digits.train, 5)
    with pytest.raises(UserError, match="lie between -1 and"):
        train(spec(), replace(digits.train, labels=digits.train.labels - 1), 10)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"train_size": 5}, "train_size is 5, but the data have 10 classes"),
        ({"train_size": 5000}, "train_size is 5000, but there are 898 images"),
        ({"train_size": 10, "validation": 0.01}, "leaves no image of the 10 to train on"),
        ({"train_size": 10, "validation": 0.9}, "leaves no image of the 10 to train on"),
    ],
)
def test_too_few_images_are_told(digits, changes, sentence):
    with pytest.raises(UserError, match=sentence):
        train(spec(**changes), digits.train, 10)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"optimizer": "adma"}, "Unknown optimizer 'adma'. Did you mean 'adam"),
        ({"optimizer": "adam(beta=0.5)"}, "Unknown setting of 'adam' 'beta'. Did you mean 'beta"),
        ({"optimizer": "adam(beta1=2)"}, "Optimizer 'adam.beta1=2.' cannot be made: .*beta"),
        ({"optimizer": "sgd(nesterov=1)"}, "nesterov is 1, but must be True or False"),
        ({"optimizer": "adam(beta1=a)"}, "beta1 is a, but must be a number"),
        ({"loss": "cros_entropy"}, "Unknown loss 'cros_entropy'. Did you mean 'cross_entropy'"),
        ({"loss": "label_smoothing(amount=1)"}, "amount of label_smoothing is 1.0, but must be at"),
        ({"schedule": "cosin"}, "Unknown schedule 'cosin'. Did you mean 'cosine'"),
        ({"schedule": "cosine(warmup=1)"}, "Unknown setting of 'cosine' 'warmup'. Did you mean"),
        ({"schedule": "cosine(warm_up=0.5)"}, "warm_up is 0.5, but must be a whole number"),
        ({"schedule": "cosine(warm_up=2)"}, "warms up for 2 epochs, but training has 2"),
        (
            {"schedule": "steps(at=60/30, factor=0.1)"},
            "epochs of steps is 60/30, but must be whole",
        ),
        ({"schedule": "steps(at=a/b, factor=0.1)"}, "epochs of steps is a/b, but must be numbers"),
        (
            {"schedule": "steps(at=1/2, factor=1/2/3)"},
            "factor of steps is 1/2/3, but must be above",
        ),
        ({"schedule": "plateau(factor=1)"}, "factor of plateau is 1.0, but must be between"),
        ({"schedule": "plateau(on=trainloss)"}, "Unknown measure 'trainloss'. Did you mean 'train"),
        ({"schedule": "plateau(on=validation_loss)"}, "Schedule 'plateau.*but validation is 0"),
        ({"stopping": "erly"}, "Unknown stopping 'erly'. Did you mean 'early'"),
        ({"stopping": "early"}, "Stopping 'early' goes by validation_loss, but validation is 0"),
        ({"stopping": "early(patience=0)"}, "patience of early is 0, but must be"),
        ({"epoch": "best"}, "Epoch 'best' goes by validation_accuracy, but validation is 0"),
        ({"epoch": 3}, "epoch is 3, but training has 2 epochs"),
        ({"augment": "mixdown"}, "Unknown augmentation 'mixdown'"),
        ({"label_noise": "unifrm(rate=0.2)"}, "Unknown label noise 'unifrm'. Did you mean 'unifo"),
        ({"network": "restnet18"}, "Unknown network 'restnet18'. Did you mean 'resnet18'"),
    ],
)
def test_specifications_are_checked_before_training(changes, sentence):
    with pytest.raises(UserError, match=sentence):
        check_spec(spec(**changes))


# ---- adversarial training ----------------------------------------------------------------------


def test_adversarial_training_by_hand(digits):
    """One step on one batch: loss(x) + loss(x moved by the sign of its gradient, within [0, 1])."""
    wanted = spec(adversarial=0.05, epochs=1, batch_size=2000, optimizer="sgd", learning_rate=0.1)
    made = train(wanted, digits.train, 10)
    model = CLASSIFIER.fresh_network(wanted, (1, 8, 8), 10)
    order = torch.randperm(len(digits.train), generator=torch.Generator().manual_seed(0))
    x = torch.from_numpy(digits.train.pixels)[order].requires_grad_()
    y = torch.from_numpy(digits.train.labels)[order]
    with _one_thread():
        first = nn.functional.cross_entropy(model(x), y)
        first.backward(retain_graph=True)
        model.zero_grad()
        moved = (x.detach() + 0.05 * x.grad.sign()).clamp(0, 1)
        assert float(nn.functional.cross_entropy(model(moved), y).detach()) > float(first.detach())
        (first + nn.functional.cross_entropy(model(moved), y)).backward()
        expected = [p.detach() - 0.1 * p.grad for p in model.parameters()]
    assert made.losses[0] > 1.9 * float(first.detach())
    for after, wanted_after in zip(made.model.parameters(), expected, strict=True):
        assert torch.allclose(after, wanted_after, atol=1e-6)
