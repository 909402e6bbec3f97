"""Augmentations: closed forms, another library's colours, distributions, and no hidden state."""

from __future__ import annotations

import colorsys
import math

import numpy as np
import pytest
import torch
from scipy import stats

from oodometer.errors import UserError
from oodometer.lab.training import augment, color
from oodometer.lab.training.augment import augmentation

TEXTS = list(augment.KNOWN)
CHANGING = [text for text in TEXTS if text != "none"]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch(count: int = 40, channels: int = 3, height: int = 12, width: int = 10) -> torch.Tensor:
    return torch.rand(count, channels, height, width, generator=generator(99))


def labels(count: int = 40) -> torch.Tensor:
    return torch.arange(count) % 4


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("text", TEXTS)
def test_shapes_ranges_and_inputs_are_kept(text, channels):
    images, targets = batch(channels=channels), labels()
    kept = images.clone()
    result, after = augmentation(text, classes=4)(images, targets, generator())
    assert result.shape == images.shape
    assert result.dtype == images.dtype
    assert 0 <= result.min() <= result.max() <= 1
    assert torch.equal(images, kept)
    assert result.data_ptr() != images.data_ptr()
    if text == "mixup":
        assert after.shape == (len(targets), 4), "mixed targets are probabilities"
    else:
        assert torch.equal(after, targets)


@pytest.mark.parametrize("text", TEXTS)
def test_the_generator_decides_everything(text):
    change, images, targets = augmentation(text, classes=4), batch(), labels()
    state = torch.random.get_rng_state()
    first, again, other = (change(images, targets, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), state), "the global state stays"
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert torch.equal(first[0], other[0]) == (text == "none")


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("text", CHANGING)
def test_every_augmentation_changes_images(text, channels):
    images = batch(400, channels)
    result, _ = augmentation(text, classes=4)(images, labels(400), generator())
    changed = (result != images).flatten(1).any(dim=1).float().mean()
    # A flip or a change of probability 1/2 each leaves a quarter; the rest change nearly all.
    assert changed > 0.68


def test_double_precision_and_large_batches_agree():
    images = batch(6).double()
    for text in TEXTS:
        result, _ = augmentation(text, classes=4)(images, labels(6), generator())
        narrow, _ = augmentation(text, classes=4)(images.float(), labels(6), generator())
        assert result.dtype == torch.float64
        assert torch.allclose(result, narrow.double(), atol=1e-5)


def test_flips_come_with_their_probability():
    images = batch(4000, 1, 2, 3)
    result, _ = augmentation("crop_flip(padding=0)")(images, labels(4000), generator())
    flipped = (result == images.flip(3)).flatten(1).all(dim=1)
    assert (flipped | (result == images).flatten(1).all(dim=1)).all()
    assert stats.binomtest(int(flipped.sum()), 4000, 0.5).pvalue > 0.001
    always, _ = augmentation("crop_flip(padding=0, flip=1)")(images, labels(4000), generator())
    assert torch.equal(always, images.flip(3))


def test_crops_are_windows_of_the_padded_image():
    images = batch(5)
    top, left = torch.tensor([0, 8, 4, 3, 1]), torch.tensor([8, 0, 4, 7, 2])
    result = augment.crop(images, top, left, 4)
    padded = torch.nn.functional.pad(images, (4, 4, 4, 4))
    for row in range(5):
        window = padded[row, :, top[row] : top[row] + 12, left[row] : left[row] + 10]
        assert torch.equal(result[row], window)
    assert torch.equal(result[2], images[2])


def test_one_window_and_one_flip_for_a_batch():
    images = batch(3, 1, 9, 8)
    change, random = augmentation("crop_flip(padding=2, per=batch)"), generator()
    padded = np.pad(images.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2)), mode="reflect")
    windows = {
        (top, left, turned): padded[:, :, top : top + 9, left : left + 8][
            ..., :: -1 if turned else 1
        ]
        for top in range(5)
        for left in range(5)
        for turned in (False, True)
    }
    seen = []
    for _ in range(1500):
        result = change(images, labels(3), random)[0].numpy()
        (place,) = [key for key, window in windows.items() if np.array_equal(result, window)]
        seen.append(place)
    counts = [seen.count(place) for place in windows]
    assert stats.chisquare(counts).pvalue > 0.001
    with pytest.raises(UserError, match="cannot mirror 9 pixels at the border of images of 9 x 8"):
        augmentation("crop_flip(padding=9, per=batch)")(images, labels(3), random)


def test_crop_offsets_are_uniform():
    image = torch.zeros(8100, 1, 9, 9)
    image[:, 0, 4, 4] = 1  # stays inside every window
    result, _ = augmentation("crop_flip(flip=0)")(image, labels(8100), generator())
    place = result.flatten(1).argmax(dim=1)
    assert (result.flatten(1).sum(dim=1) == 1).all()
    assert stats.chisquare(torch.bincount(place, minlength=81).numpy()).pvalue > 0.001


def parameters(count: int = 1, **changes: list[float]) -> torch.Tensor:
    values = {"scales": [1, 1], "angle": [0], "shears": [0, 0], "shifts": [0, 0]} | changes
    scales, angle, shears, shifts = (
        torch.tensor(part, dtype=torch.float64)[:, None].expand(-1, count)
        for part in values.values()
    )
    return augment.affine_matrices(scales, angle[0], shears, shifts)


def test_an_affine_map_without_parameters_is_the_identity():
    images = batch().double()
    assert torch.allclose(augment.warp(images, parameters(40)), images, atol=1e-12)
    text = "affine(scale=0, translate=0, rotate=0, shear=0, probability=1, flip=0)"
    result, _ = augmentation(text)(images.float(), labels(), generator())
    assert torch.allclose(result, images.float(), atol=1e-5)


@pytest.mark.parametrize(("right", "down"), [(3, 0), (0, 2), (-4, 1), (0, -5)])
def test_whole_shifts_roll_the_image_with_black_behind(right, down):
    images = batch().double()
    result = augment.warp(images, parameters(40, shifts=[right, down]))
    expected = images.roll((down, right), dims=(2, 3))
    if down:
        expected[:, :, slice(None, down) if down > 0 else slice(down, None)] = 0
    if right:
        expected[..., slice(None, right) if right > 0 else slice(right, None)] = 0
    assert torch.allclose(result, expected, atol=1e-12)


def test_a_quarter_turn_and_a_doubled_size():
    images = batch(3, 3, 8, 8).double()
    turned = augment.warp(images, parameters(3, angle=[math.pi / 2]))
    assert torch.allclose(turned, images.rot90(-1, dims=(2, 3)), atol=1e-12)
    assert torch.allclose(
        augment.warp(images, parameters(3, scales=[-1, 1])), images.flip(3), atol=1e-12
    )


def test_warps_agree_with_scipy():
    from scipy import ndimage

    images = batch(4, 1, 14, 11).double()
    matrices = parameters(
        4, scales=[0.93, 1.08], angle=[0.2], shears=[0.1, -0.15], shifts=[0.7, -1.2]
    )
    result = augment.warp(images, matrices)
    swap = np.array([[0, 1], [1, 0]])  # SciPy's first axis is y
    linear = swap @ matrices[0, :, :2].numpy() @ swap
    inverse = np.linalg.inv(linear)
    middle = (np.array([14, 11]) - 1) / 2
    offset = middle - inverse @ (middle + matrices[0, :, 2].numpy()[::-1])
    for row in range(4):
        # A border of zeros, so that what is outside is blended in bilinearly by SciPy too.
        expected = ndimage.affine_transform(
            np.pad(images[row, 0].numpy(), 3), inverse, offset - inverse @ [3, 3] + [3, 3], order=1
        )[3:-3, 3:-3]
        assert np.allclose(result[row, 0].numpy(), expected, atol=1e-10)


def test_affine_draws_span_their_ranges(monkeypatch):
    seen, real = {}, augment.affine_matrices

    def spy(*values: torch.Tensor) -> torch.Tensor:
        seen.update(zip(("scales", "angle", "shears", "shifts"), values, strict=True))
        return real(*values)

    monkeypatch.setattr(augment, "affine_matrices", spy)
    augmentation("affine(probability=1)")(batch(4000, 1, 20, 10), labels(4000), generator())
    degree = math.pi / 180
    for values, low, high in [
        (seen["scales"], 0.9, 1.1),
        (seen["angle"][None], -15 * degree, 15 * degree),
        (seen["shears"], -10 * degree, 10 * degree),
        (seen["shifts"][:1], -1, 1),
        (seen["shifts"][1:], -2, 2),
    ]:
        for row in values.double().numpy():
            assert stats.kstest(row, stats.uniform(low, high - low).cdf).pvalue > 0.001
    assert abs(np.corrcoef(seen["scales"].numpy())[0, 1]) < 0.06, "axes are independent"


def colours(count: int = 300) -> torch.Tensor:
    pixels = torch.rand(count, 3, 1, 1, generator=generator(5), dtype=torch.float64)
    special = [[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]]
    return torch.cat([pixels, torch.tensor(special, dtype=torch.float64)[:, :, None, None]])


def test_hue_agrees_with_colorsys():
    images = colours()
    shifts = torch.linspace(-0.5, 0.5, len(images), dtype=torch.float64)
    result = color.adjust_hue(images, shifts)
    for row, shift in enumerate(shifts.tolist()):
        hue, saturation, value = colorsys.rgb_to_hsv(*images[row, :, 0, 0].tolist())
        expected = colorsys.hsv_to_rgb((hue + shift) % 1, saturation, value)
        assert result[row, :, 0, 0].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("shift", [0.0, 1.0, -1.0])
def test_a_whole_turn_of_hue_is_the_identity(shift):
    images = colours()
    turned = color.adjust_hue(images, torch.full((len(images),), shift, dtype=torch.float64))
    assert torch.allclose(turned, images, atol=1e-12)


def test_colours_agree_with_pillow():
    from PIL import Image, ImageEnhance

    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8)
    images = torch.from_numpy(pixels).permute(2, 0, 1)[None].double() / 255
    for ours, theirs in [
        (color.adjust_brightness, ImageEnhance.Brightness),
        (color.adjust_contrast, ImageEnhance.Contrast),
        (color.adjust_saturation, ImageEnhance.Color),
    ]:
        for factor in (0.0, 0.7, 1.0, 1.3):
            result = ours(images, torch.tensor([factor]).double())[0].permute(1, 2, 0) * 255
            expected = np.asarray(theirs(Image.fromarray(pixels)).enhance(factor), dtype=float)
            # Pillow rounds the grey value and the result to bytes.
            assert np.abs(result.numpy() - expected).max() < 2


def test_jitter_of_grey_images_is_brightness_and_contrast_alone():
    images = batch(channels=1)
    text = "color_jitter(brightness=0, contrast=0, flip=0, probability=1)"
    result, _ = augmentation(text)(images, labels(), generator())
    assert torch.allclose(result, images, atol=1e-6)
    with pytest.raises(UserError, match="got 2 channels"):
        augmentation("color_jitter(probability=1)")(batch(channels=2), labels(), generator())


def test_jitter_changes_the_order_of_its_operations():
    image = batch(1)
    many = image.expand(600, -1, -1, -1).clone()
    fixed = torch.full((600,), 0.9)
    drawn = torch.stack([fixed, -fixed, fixed, torch.zeros(600)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(augment, "_uniform", lambda *_: drawn)
        text = "color_jitter(brightness=1, contrast=1, saturation=1, hue=0, probability=1, flip=0)"
        result, _ = augmentation(text)(many, labels(600), generator())
    assert len(torch.unique(result.mul(1e4).round(), dim=0)) > 2


def test_holes_are_black_and_of_their_size():
    images = torch.ones(900, 3, 16, 12)
    text = "coarse_dropout(holes=1, size=3, probability=1, flip=0)"
    result, _ = augmentation(text)(images, labels(900), generator())
    dark = result[:, 0] == 0
    assert torch.equal(dark, result[:, 2] == 0), "through all channels"
    assert (dark.flatten(1).sum(dim=1) == 9).all()
    for axis, places in ((2, 14), (1, 10)):
        first = dark.any(dim=axis).float().argmax(dim=1)
        assert (dark.any(dim=axis).sum(dim=1) == 3).all()
        assert stats.chisquare(torch.bincount(first, minlength=places).numpy()).pvalue > 0.001


def test_holes_stay_within_their_numbers():
    images = torch.ones(2000, 1, 30, 30)
    text = "coarse_dropout(min_holes=1, min_size=1, probability=1)"
    result, _ = augmentation(text)(images, labels(2000), generator())
    area = (result == 0).flatten(1).sum(dim=1)
    assert area.min() == 1
    assert 30 < area.max() <= 45
    exact, _ = augmentation("coarse_dropout(probability=1)")(images, labels(2000), generator())
    area = (exact == 0).flatten(1).sum(dim=1)
    assert area.max() == 45, "five holes of 3 x 3 that do not meet"
    assert area.median() > 40
    small, _ = augmentation("coarse_dropout(size=9, probability=1)")(
        torch.ones(4, 1, 2, 3), labels(4), generator()
    )
    assert (small[:, :, :, :] == 0).any()


def test_sides_are_cropped_and_padded_and_resized_back():
    ramp = torch.arange(12.0, dtype=torch.float64).expand(1, 1, 12, 12) / 12
    same = augment.resize_sides(ramp, torch.zeros(1, 4, dtype=torch.long))
    assert torch.allclose(same, ramp, atol=1e-12)
    for top, right, bottom, left in [(3, 0, 0, 0), (-2, 1, 3, -3), (0, -3, -1, 2)]:
        result = augment.resize_sides(ramp, torch.tensor([[top, right, bottom, left]]))
        framed = torch.nn.functional.pad(ramp, (left, right, top, bottom))  # negative sides crop
        expected = torch.nn.functional.interpolate(
            framed, size=(12, 12), mode="bilinear", align_corners=False
        )
        assert torch.allclose(result, expected, atol=1e-12)


def test_too_much_cropping_is_refused():
    with pytest.raises(UserError, match="crop 10 pixels from images of 12 x 10"):
        augmentation("crop_and_pad(pixels=5)")(batch(), labels(), generator())


def test_mixup_mixes_images_and_targets_alike():
    count = 16
    images = torch.eye(count).view(count, 1, 4, 4)  # each image says which one it is
    targets = torch.arange(count)
    mixed, after = augmentation("mixup(flip=0)", classes=count)(images, targets, generator(3))
    assert torch.allclose(mixed.view(count, count), after, atol=1e-6)
    assert torch.allclose(after.sum(dim=1), torch.ones(count))
    share = torch.unique(after.diagonal().mul(1e5).round())
    assert len(share) <= 2, "one share for the whole batch, 1 where an image meets itself"
    both = torch.nn.functional.one_hot(targets, count).float()
    again = augmentation("mixup(flip=0)")(images, both, generator(3))
    assert torch.equal(again[1], after)


@pytest.mark.parametrize("alpha", [1.0, 0.4])
def test_mixup_shares_follow_beta(alpha):
    images = torch.tensor([0.0, 1.0]).view(2, 1, 1, 1)
    change, random, shares = augmentation(f"mixup(alpha={alpha}, flip=0)"), generator(), []
    while len(shares) < 800:
        result, _ = change(images, torch.eye(2), random)
        if result[0] != 0 or result[1] != 1:  # not each with itself
            shares.append(result[1].item())
    assert stats.kstest(shares, stats.beta(alpha, alpha).cdf).pvalue > 0.001


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mixupp", "Did you mean 'mixup'"),
        ("crop_flip(pad=4)", "Unknown setting of 'crop_flip' 'pad'"),
        ("crop_flip(padding=-1)", "at least 0"),
        ("crop_flip(per=epoch)", "image or batch"),
        ("crop_flip(flip=2)", "between 0 and 1"),
        ("affine(scale=1)", "less than 1"),
        ("affine(rotate=fast)", "a number"),
        ("color_jitter(hue=0.7)", "between 0 and 0.5"),
        ("coarse_dropout(holes=0)", "at least 1"),
        ("coarse_dropout(min_holes=6)", "from 0 to 5"),
        ("mixup(alpha=0)", "more than 0"),
    ],
)
def test_bad_texts_are_refused_in_one_sentence(text, message):
    with pytest.raises(UserError) as problem:
        augmentation(text)
    assert message in str(problem.value)


def test_bad_batches_are_refused():
    change = augmentation("mixup")
    for images, targets, message in [
        (batch()[0], labels(3), "must be floats of shape"),
        (batch().to(torch.uint8), labels(), "got torch.uint8"),
        (batch(), labels(3), "40 images need targets"),
        (batch(), labels(), "how many classes there are"),
    ]:
        with pytest.raises(UserError, match=message):
            change(images, targets, generator())
