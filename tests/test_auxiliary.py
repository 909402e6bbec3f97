"""Auxiliary outliers: refused if they are what a detector is tested on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import oodometer as om
from oodometer.engine.lead.run import read_contents
from oodometer.errors import UserError
from oodometer.lab.data.auxiliary import (
    check_auxiliary_images,
    check_auxiliary_name,
    untested_part,
)
from oodometer.lab.data.outliers import load_outliers
from oodometer.lab.data.samples import Images
from oodometer.lab.data.sources import load_source
from oodometer.study import TrainSpec, parse_study
from oodometer.testing.own import planted_outliers


def pictures(name: str, seed: int, count: int = 80, side: int = 16) -> Images:
    """Random smooth images."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (count, 3, side // 2, side // 2), np.uint8)
    pixels = small.repeat(2, axis=2).repeat(2, axis=3)
    return Images(name, pixels, np.full(count, -1))


def joined(name: str, *parts: np.ndarray) -> Images:
    pixels = np.concatenate(parts)
    return Images(name, pixels, np.full(len(pixels), -1))


AUXILIARY, TEST, OTHER = pictures("more", 0), pictures("test", 1), pictures("other", 2)


def test_sets_without_common_images_are_accepted():
    check_auxiliary_images(AUXILIARY, [TEST, OTHER])


def test_one_test_image_among_the_auxiliary_outliers_is_refused():
    leaking = joined("more", AUXILIARY.pixels, TEST.pixels[33:34])
    said = "'more' contain 1 of 80 images of 'test': take outliers that are neither"
    with pytest.raises(UserError, match=said):
        check_auxiliary_images(leaking, [OTHER, TEST])
    floats = Images("more", leaking.floats(np.arange(81)), leaking.labels)  # stored otherwise
    with pytest.raises(UserError, match=said):
        check_auxiliary_images(floats, [OTHER, TEST])


@pytest.mark.parametrize("change", ["bit", "noise"])
def test_one_test_image_with_noise_among_the_auxiliary_outliers_is_refused(change):
    image = TEST.pixels[33:34].copy()
    if change == "bit":
        image[0, 0, 3, 4] ^= 1
    else:
        noise = np.random.default_rng(5).integers(-4, 5, image.shape)
        image = np.clip(image + noise, 0, 255).astype(np.uint8)
    leaking = joined("more", AUXILIARY.pixels, image)
    with pytest.raises(UserError, match="'more' contain noisy copies of 1 of 80 images of 'test'"):
        check_auxiliary_images(leaking, [OTHER, TEST])


def test_images_that_share_their_coarse_shading_only_are_no_leak():
    rng = np.random.default_rng(6)
    shading = np.linspace(60, 200, TEST.shape[2])[None, None, :, None]
    sets = [
        joined(name, images.pixels, (shading + rng.uniform(-50, 50, (5, *TEST.shape))).astype("u1"))
        for name, images in (("more", AUXILIARY), ("test", TEST))
    ]
    check_auxiliary_images(sets[0], sets[1:])


def test_black_images_in_both_sets_are_no_leak():
    black = np.zeros((3, *TEST.shape), np.uint8)
    sets = (joined(images.name, images.pixels, black) for images in (AUXILIARY, TEST))
    check_auxiliary_images(next(sets), list(sets))


def test_test_images_that_are_mirrored_and_darker_are_refused():
    dark = (TEST.pixels[:, :, :, ::-1] * 0.8).astype(np.uint8)
    with pytest.raises(UserError, match="contain near copies of 80 of 80 images of 'test'"):
        check_auxiliary_images(joined("more", AUXILIARY.pixels, dark), [OTHER, TEST])


@pytest.mark.parametrize(
    ("name", "ood", "said"),
    [
        ("svhn", ["celeba", "svhn"], "'svhn', which is an outlier set of the study"),
        ("svhn(size=16)", ["svhn(part=all)"], "'svhn', which is an outlier set of the study"),
        ("cifar10", ["svhn"], "'cifar10', which is the in-distribution data"),
        ("tiny-imagenet", ["svhn"], r"shares classes with 'cifar10' .*\(rule=strict\) to leave"),
        ("cifar100(classes=some)", ["svhn"], "classes is some, but must be any"),
        ("cifar100(rows=3)", ["svhn"], "Unknown setting of data set 'cifar100' 'rows'"),
        ("cifar100(rule=strict)", ["svhn", "tiny-imagenet"], "shares classes with 'tiny-imagenet'"),
    ],
)
def test_names_that_are_refused(name, ood, said):
    with pytest.raises(UserError, match=said):
        check_auxiliary_name(name, "cifar10", ood)


@pytest.mark.parametrize(
    "name", ["tiny-imagenet(rule=strict)", "tiny-imagenet(classes=any)", "textures", "mine.npz"]
)
def test_names_that_are_accepted(name):
    check_auxiliary_name(name, "cifar10", ["svhn", "celeba"])


def test_a_study_whose_auxiliary_set_contains_test_images_does_not_start(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, images, more in (("known", TEST, OTHER), ("leak", AUXILIARY, AUXILIARY)):
        train = joined("-", more.pixels, TEST.pixels[:1]) if name == "leak" else more
        np.savez(
            f"{name}.npz", train_images=train.pixels.transpose(0, 2, 3, 1),
            train_labels=np.arange(len(train)) % 2,
            test_images=images.pixels.transpose(0, 2, 3, 1), test_labels=np.arange(80) % 2,
        )  # fmt: skip
    content = {
        "name": "leaking",
        "base": {"data": "known.npz", "auxiliary": "leak.npz", "model_size": "tiny"},
        "detectors": ["outlier_exposure"],
        "ood": ["uniform_noise"],
    }
    with pytest.raises(UserError, match=r"'leak \(train\)' contain 1 of 80 images of 'known'"):
        read_contents(parse_study(content, "study", tmp_path))


def test_a_generator_never_learns_from_images_that_are_tested(tmp_path):
    """A set without parts is tested on a draw of its images; the others are learned from."""
    path = tmp_path / "faces.npz"
    images = np.random.default_rng(0).integers(0, 256, (100, 8, 8), np.uint8)
    np.savez(path, images=images, labels=np.zeros(100, int))
    spec = TrainSpec.model_validate({"data": "digits", "test_size": 60, "ood_draw": 3})
    source = load_source(spec)
    tested = load_outliers(str(path), source)
    learned = untested_part(str(path), source, tested)
    assert isinstance(tested, Images) and isinstance(learned, Images)
    kinds = [{image.tobytes() for image in part.pixels} for part in (tested, learned)]
    assert (len(tested), len(learned)) == (60, 40) and not kinds[0] & kinds[1]
    everything = replace(source, test_size=None)
    with pytest.raises(UserError, match="'faces' needs at least 32 images.* got 0 of 100"):
        untested_part(str(path), everything, load_outliers(str(path), everything))


def test_fit_detector_and_attack_refuse_auxiliary_outliers_that_are_known_otherwise():
    train, known, far, other = (planted_outliers(20, seed) for seed in range(4))
    labels = np.arange(20) % 2
    for auxiliary, sentence in (
        (np.concatenate([other, train[:2]]), "contain 2 of 20 images of 'images'"),
        (other[:0], "'auxiliary' is empty"),
        (other[:, :, :4], r"have the shape \(1, 4, 8\), but 'images' has \(1, 8, 8\)"),
    ):
        with pytest.raises(UserError, match=sentence):
            om.fit_detector("ceda", train, labels, auxiliary=auxiliary, size="tiny")
    with pytest.raises(UserError, match="contain 20 of 20 images of 'far'"):
        om.attack(
            None, (train, labels), known, {"far": far}, detectors="ceda", auxiliary=far, size="tiny"
        )
