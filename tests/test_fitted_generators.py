"""Generators trained on images without a study: draw, search, measure, save and load."""

from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors.numpy
import torch
from test_generators import bars
from typer.testing import CliRunner

import oodometer as om
from oodometer.cli import app
from oodometer.errors import UserError
from oodometer.lab.generators.quality import frechet_distance, measure_quality, nearest_distances


@pytest.fixture(scope="module")
def generator() -> om.FittedGenerator:
    return om.fit_generator("stylegan2", bars(96).pixels, size="tiny", seed=3)


def points(count: int, seed: int = 0) -> torch.Tensor:
    drawn = torch.randn(count, 8, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(drawn, dim=1)


def test_the_same_point_has_the_same_image_also_after_saving(generator, tmp_path):
    before = torch.get_rng_state()
    images = generator.images(points(5))
    assert images.shape == (5, 1, 8, 8) and images.min() >= 0 and images.max() <= 1
    assert torch.equal(generator.images(points(5)), images)
    np.testing.assert_allclose(generator.images(points(5).numpy()[2:3]), images[2:3], atol=1e-5)
    assert generator.samples(3, seed=1).shape == (3, 1, 8, 8)
    file = generator.with_settings(truncation=0.5, cutoff=2).save(
        tmp_path / "deep/bars.safetensors"
    )
    again = om.load_generator(file)
    assert (again.dimensions, again.shape, again.curve) == (8, (1, 8, 8), generator.curve)
    assert (again.drawing.truncation, again.drawing.cutoff) == (0.5, 2)
    assert torch.equal(again.with_settings().images(points(5)), images)
    assert not torch.equal(again.images(points(5)), images)
    with safetensors.safe_open(file, framework="numpy") as opened:
        assert not any("discriminator" in name for name in opened.keys())  # noqa: SIM118
    assert torch.equal(torch.get_rng_state(), before)


def test_random_noise_is_an_option_that_leaves_the_global_state_alone(generator):
    state = {name: value.clone() for name, value in generator.network.state_dict().items()}
    for name, value in generator.network.named_parameters():
        if name.endswith("strength"):
            value.data.fill_(0.5)
    before = torch.get_rng_state()
    noisy = generator.with_settings(random_noise=True)
    first, second = noisy.images(points(2)), noisy.images(points(2))
    assert not torch.equal(first, second)
    again = generator.with_settings(random_noise=True)
    assert torch.equal(again.images(points(2)), first)  # from its own seed
    assert torch.equal(torch.get_rng_state(), before)
    found = om.search(lambda images: images.mean((1, 2, 3)), noisy, chains=4, steps=3)
    assert any("draws its noise anew" in note for note in found.notes)
    generator.network.load_state_dict(state)


def test_a_search_among_its_images_finds_darker_ones(generator):
    asked = []

    def score(images: torch.Tensor) -> torch.Tensor:
        asked.append(len(images))
        return 20 * images.mean((1, 2, 3))

    found = om.search(score, variation=generator, chains=16, steps=30, seed=1)
    assert found.variation == "stylegan2" and sum(asked) == found.asked
    assert (found.scores <= found.clean_scores + 1e-4).all()
    assert found.scores.mean() < found.clean_scores.mean()
    np.testing.assert_allclose(np.linalg.norm(found.latent, axis=1), 1, rtol=1e-5)
    torch.testing.assert_close(generator.images(found.latent), found.images, rtol=1e-4, atol=1e-5)
    steeper = om.search(score, generator, chains=16, steps=5, method="gradient_descent", seed=1)
    assert steeper.scores.mean() < steeper.clean_scores.mean()
    with pytest.raises(UserError, match="makes its own images: give chains, not images"):
        om.search(score, generator, bars(2).pixels, steps=1)


def test_frechet_distance_in_closed_form():
    random = np.random.default_rng(0)
    rows = random.normal(size=(400, 3))
    rows = np.linalg.qr(rows - rows.mean(0))[0] * np.sqrt(399)  # covariance exactly the identity
    assert frechet_distance(rows, rows) == pytest.approx(0, abs=1e-9)
    scales, shift = np.array([2.0, 3.0, 0.5]), np.array([1.0, -2.0, 0.0])
    # Diagonal covariances: |m - n|² + sum of (s - t)².
    wanted = 5 + ((scales - 1) ** 2).sum()
    assert frechet_distance(rows * scales + shift, rows) == pytest.approx(wanted)
    turn = np.linalg.qr(random.normal(size=(3, 3)))[0]
    assert frechet_distance((rows * scales) @ turn, rows @ turn) == pytest.approx(wanted - 5)


def test_copies_are_noticed():
    random = np.random.default_rng(0)

    def normal(count: int) -> torch.Tensor:
        return torch.from_numpy(random.normal(size=(count, 1, 2, 2)).astype(np.float32))

    train, held_out, fresh = normal(500), normal(400), normal(200)
    brute = [min(np.linalg.norm(x - y) for y in train.numpy()) for x in held_out[:5].numpy()]
    np.testing.assert_allclose(nearest_distances(held_out[:5], train), brute, rtol=1e-3)
    honest = measure_quality(fresh, held_out, train, lambda images: images.flatten(1))
    assert honest.nearer == pytest.approx(0.5, abs=0.08) and honest.copied < 0.05
    assert honest.distance < 3 * honest.real_distance + 0.1
    copies = measure_quality(train[:200], held_out, train, lambda images: images.flatten(1))
    assert copies.nearer > 0.99 and copies.copied > 0.99
    constant = measure_quality(0 * fresh, held_out, train, lambda images: images.flatten(1))
    assert constant.distance > 10 * constant.real_distance


def test_quality_of_a_generator(generator):
    train, test = bars(96), bars(80, seed=9)
    labels = (train.pixels[:, 0, 0] > 0).all(1).astype(np.int64)
    measured = generator.quality(test.pixels, train.pixels, labels, count=30)
    assert measured.images == 30 and measured.distance > measured.real_distance >= 0
    assert "Fréchet distance" in str(measured)
    with pytest.raises(UserError, match="needs a label for every training image"):
        generator.quality(test.pixels, train.pixels)
    with pytest.raises(
        UserError, match=r"of shape \(1, 8, 8\), but 'images' has shape \(1, 4, 4\)"
    ):
        generator.quality(test.pixels[:, :, :4, :4], train.pixels)
    with pytest.raises(UserError, match="one finite row per image"):
        generator.quality(test.pixels, train.pixels, features=lambda x: x.flatten(1) / 0)


def test_errors_are_one_sentence(generator, tmp_path):
    for make, sentence in [
        (lambda: generator.images(points(2)[:, :5]), r"must have shape \(n, 8\), got \(2, 5\)"),
        (lambda: generator.with_settings(truncation=2), "truncation is 2, but must be from 0 to 1"),
        (
            lambda: generator.with_settings(cutoff=-1),
            "cutoff is -1, but must be a whole number from 0",
        ),
        (lambda: om.fit_generator("stylegan2", bars(4).pixels, size="big"), "Unknown size 'big'"),
        (lambda: om.fit_generator("gan", bars(4).pixels), "Unknown generator 'gan'"),
        (lambda: om.load_generator(tmp_path / "none.safetensors"), "Generator file"),
        (lambda: om.search(len, object(), chains=2), "or a fitted generator, got object"),
    ]:
        with pytest.raises(UserError, match=sentence):
            make()


def test_files_that_are_no_generators_are_refused(generator, tmp_path):
    file = generator.save(tmp_path / "bars.safetensors")
    content = file.read_bytes()
    (tmp_path / "half.safetensors").write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match="is damaged, or is not a file that save wrote"):
        om.load_generator(tmp_path / "half.safetensors")
    arrays = safetensors.numpy.load_file(file)
    with safetensors.safe_open(file, framework="numpy") as opened:
        said = json.loads(opened.metadata()["oodometer"])

    def rewritten(**changes: object) -> str:
        path = tmp_path / "other.safetensors"
        known = {n: v for n, v in {**said, **changes}.items() if v is not None}
        safetensors.numpy.save_file(arrays, path, {"oodometer": json.dumps(known)})
        return str(path)

    for changes, sentence in [
        ({"generator": None}, "is not a file that FittedGenerator.save wrote"),
        ({"format": 7}, "whose format 7 is not 1"),
        ({"shape": [1, 9000, 9000]}, "does not fit the generator 'stylegan2'"),
        ({"shape": [3, 8, 8]}, "does not fit the generator 'stylegan2'"),
        ({"spec": {"data": "x", "model_size": "paper"}}, "does not fit the generator"),
        ({"drawing": {"temper": 1}}, "does not fit the generator"),
        ({"generator": "biggan"}, "Unknown generator 'biggan'"),
    ]:
        with pytest.raises(UserError, match=sentence):
            om.load_generator(rewritten(**changes))
    with pytest.raises(UserError, match="is not a file that FittedDetector.save wrote"):
        om.load_detector(file)


@pytest.mark.parametrize(
    ("detector", "space"),
    [
        ("vae", "sphere"),
        ("reconstruction_error", "box"),
        ("normalized_autoencoder", "sphere"),
    ],
)
def test_decoders_of_fitted_detectors_are_variations(detector, space):
    pictures = bars(64).pixels
    fitted = om.fit_detector(detector, pictures, size="tiny")
    decoder = fitted.decoder()
    assert (decoder.name, decoder.space, decoder.shape) == (
        f"decoder of {detector}", space, (1, 8, 8),
    )  # fmt: skip
    found = om.search(lambda x: x.mean((1, 2, 3)), decoder, chains=8, steps=20)
    assert found.images.shape == (8, 1, 8, 8) and found.scores.mean() < found.clean_scores.mean()
    assert decoder.note in found.notes
    again = om.search(lambda x: x.mean((1, 2, 3)), fitted.decoder(), chains=8, steps=20)
    assert torch.equal(again.images, found.images)


def test_codes_in_the_box_are_those_of_training_images():
    fitted = om.fit_detector("reconstruction_error", bars(64).pixels, size="tiny")
    (need,) = fitted.models
    codes = fitted.trained_on[need][:, 1:]
    low, high = (torch.quantile(codes, q, dim=0) for q in (0.01, 0.99))
    point = (codes[:3] - low) / (high - low)  # where the codes of three images are in the box
    network = fitted.models[need].network
    pictures = torch.from_numpy(bars(64).floats(np.arange(3)))
    with torch.no_grad():
        wanted = network(pictures)[1].sigmoid()
        made = fitted.decoder().images(torch.zeros(3, 0), point)
    torch.testing.assert_close(made, wanted, rtol=1e-3, atol=1e-4)


def test_the_published_autoencoder_has_codes_from_minus_one_to_one():
    random = np.random.default_rng(0)
    pictures = random.integers(0, 255, (32, 3, 32, 32), np.uint8)
    fitted = om.fit_detector("reconstruction_error(architecture=evg)", pictures, size="tiny")
    decoder = fitted.decoder()
    made = decoder.images(torch.zeros(2, 0), torch.rand(2, decoder.dimensions))
    assert decoder.space == "box" and made.shape == (2, 3, 32, 32)


def test_detectors_without_a_decoder_say_so():
    fitted = om.fit_detector("pixelcnn", bars(32).pixels, size="tiny")
    with pytest.raises(UserError, match="Detector 'pixelcnn' has no decoder"):
        fitted.decoder()


def test_attack_takes_the_file_of_a_generator_or_of_a_detector(generator, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generator.save("bars.safetensors")
    om.fit_detector("vae", bars(64).pixels, size="tiny").save("vae.safetensors")
    known = 255 - bars(60, 1).pixels
    np.savez("known.npz", train_images=known, test_images=known[:40])
    np.savez("outliers.npz", images=bars(20, 2).pixels)
    arguments = [
        "attack", "--train", "known.npz", "--id", "known.npz", "--ood", "bars=outliers.npz",
        "--detectors", "reconstruction_error", "--size", "tiny", "--steps", "4", "--images", "6",
        "--variation", "bars.safetensors,vae.safetensors",
    ]  # fmt: skip
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    page = (tmp_path / "oodometer-attack" / "report.html").read_text()
    assert "stylegan2 bars of bars" in page and "decoder of vae vae of bars" in page
    assert "with the lowest scores. Rank" in page and "made from" not in page
    wrong = CliRunner().invoke(app, [*arguments, "--variation", "none.safetensors"])
    assert "Generator file 'none.safetensors'" in str(wrong.exception)
    with pytest.raises(UserError, match=r"makes images of shape \(1, 8, 8\), not \(1, 4, 4\)"):
        dark = torch.zeros(4, 1, 4, 4)
        om.attack_scores(
            {"mean": lambda x: x.mean((1, 2, 3))},
            dark,
            {"dark": dark},
            variations=generator,
            steps=1,
        )
