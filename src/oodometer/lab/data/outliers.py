"""Outlier sets: made from the in-distribution data, or read and brought to their shape."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from oodometer.calls import Setting
from oodometer.errors import UserError, unknown
from oodometer.lab.data.cards import CARDS
from oodometer.lab.data.compatibility import Rule, kept_rows
from oodometer.lab.data.datasets import Part, conform, read_part, split_options
from oodometer.lab.data.samples import Images, Raw, Samples, Tokens
from oodometer.lab.data.sources import Source, as_samples, at_most
from oodometer.lab.data.splits import OD_TEST, Role, od_test_rows, outlier_draws
from oodometer.lab.data.vocabulary import NOTHING, Numbering

_NOISE_SEED = 20_240_101  # noise is data: the same in every run and every study


def uniform_noise(source: Source) -> Images:
    """Uniform noise in [0, 1]; as many images as the test set."""
    rng = np.random.default_rng(_NOISE_SEED)
    pixels = rng.uniform(0, 1, _pixels("uniform_noise", source.test).shape).astype(np.float32)
    return _outliers("uniform noise", pixels)


def gaussian_noise(source: Source) -> Images:
    """Gaussian noise, mean 0.5, standard deviation 0.25, clipped to [0, 1]."""
    shape = _pixels("gaussian_noise", source.test).shape
    return _outliers("Gaussian noise", _normal(_NOISE_SEED + 1, 0.25, shape))


def wide_gaussian_noise(source: Source) -> Images:
    """Gaussian noise, mean 0.5, standard deviation 1, clipped to [0, 1]: mostly 0 or 1."""
    shape = _pixels("wide_gaussian_noise", source.test).shape
    return _outliers("wide Gaussian noise", _normal(_NOISE_SEED + 3, 1, shape))


def rotated(source: Source) -> Images:
    """Test images rotated by 90 degrees; some keep their class (a 0 is still a 0)."""
    pixels = _pixels("rotated", source.test)
    if pixels.shape[2] != pixels.shape[3]:
        raise UserError(
            f"Outlier set 'rotated' needs square images; '{source.name}' has {pixels.shape[2:]}."
        )
    turned = np.ascontiguousarray(np.rot90(pixels, axes=(2, 3)))
    return _outliers(f"rotated {source.name}", turned)


def inverted(source: Source) -> Images:
    """Test images with inverted intensities, within the range of the training pixels."""
    train, test = (_pixels("inverted", part) for part in (source.train, source.test))
    low, high = train.min(), train.max()
    if test.dtype == np.uint8:
        turned = int(low) + int(high) - test.astype(np.int16)
        return _outliers(f"inverted {source.name}", turned.clip(0, 255).astype(np.uint8))
    return _outliers(f"inverted {source.name}", low + high - test)


def shuffled_pixels(source: Source) -> Images:
    """Test images with shuffled pixels: the same histogram."""
    rng = np.random.default_rng(_NOISE_SEED + 2)
    pixels = _pixels("shuffled_pixels", source.test)
    flat = pixels.reshape(*pixels.shape[:2], -1)
    order = rng.random((len(flat), 1, flat.shape[2])).argsort(axis=2)
    shuffled = np.take_along_axis(flat, np.broadcast_to(order, flat.shape), axis=2)
    return _outliers(f"pixel-shuffled {source.name}", shuffled.reshape(pixels.shape))


def held_out_classes(source: Source) -> Samples:
    """Samples of classes that the classifier was not trained on: near outliers."""
    if source.held_out is None:
        raise UserError(
            "Outlier set 'held_out_classes' needs classes to hold out: set base.held_out_classes, "
            "for example to [8, 9]."
        )
    return source.held_out


def shuffled_words(source: Source) -> Tokens:
    """Test texts with shuffled words."""
    rng = np.random.default_rng(_NOISE_SEED + 4)
    words = _tokens("shuffled_words", source.test).words.copy()
    free, begins = _free_places(words, source), _numbering(source).begins
    for row, places in zip(words, free, strict=True):
        pieces = row[places]
        parts = np.split(pieces, np.flatnonzero(begins[pieces])[1:])  # a word stays whole
        order = rng.permutation(len(parts))
        row[places] = np.concatenate([parts[part] for part in order])
    return Tokens(f"word-shuffled {source.name}", words, np.full(len(words), -1))


def random_words(source: Source) -> Tokens:
    """Random words of the vocabulary, as many as in the test texts."""
    rng = np.random.default_rng(_NOISE_SEED + 5)
    tests = _tokens("random_words", source.test).words
    known = _numbering(source).words
    drawn = known[rng.integers(len(known), size=tests.shape)]
    words = np.where(_free_places(tests, source), drawn, tests)
    return Tokens("random words", words, np.full(len(words), -1))


KNOWN: dict[str, Callable[[Source], Samples]] = {
    made.__name__: made
    for made in (
        uniform_noise,
        gaussian_noise,
        wide_gaussian_noise,
        rotated,
        inverted,
        shuffled_pixels,
        shuffled_words,
        random_words,
        held_out_classes,
    )
}


def load_outliers(name: str, source: Source) -> Samples:
    """Make a known outlier set for this source, or read a part of a data set: its test part, or
    the one that stands behind its name, as in ``svhn(part=train)``.

    Images are brought to the shape of the source's, see `conform`; texts to its words.
    ``(rule=published)`` leaves classes out that the source shows too, see `compatibility`.
    """  # noqa: D205
    if name in KNOWN:
        return _drawn(KNOWN[name](source), source)
    data, options = split_options(name, OPTIONS)
    if data not in CARDS and "/" not in data and not Path(data).suffix and not Path(data).exists():
        raise unknown("outlier set", data, [*KNOWN, *CARDS, "path/to/your/data"])
    asked = str(options.get("part", "test"))
    if asked not in _PARTS:
        raise unknown(f"part of '{data}'", asked, _PARTS)
    raw = _read(data, asked, options, source)
    if raw.name == source.name:
        raise UserError(
            f"Outlier set '{name}' has the name of the in-distribution data, '{source.name}': take "
            "other data, or give the file another name (in evaluate, NAME=DATA does)."
        )
    title = raw.name if asked in ("test", "test_outlier") else f"{raw.name} ({_PARTS[asked]})"
    if "rule" in options:
        raw = raw.take(_unshared(raw, source.name, str(options["rule"])))
    if isinstance(raw, Images):
        raw = conform(_drawn(raw, source), *source.train.shape)
        return Images(title, raw.pixels, np.full(len(raw), -1))
    words = _drawn(as_samples(raw, source.vocabulary), source).values
    return Tokens(title, words, np.full(len(words), -1))


OPTIONS = ("part", "size", "rule")
# What a user may ask for, and what a set is then called. The last two are roles in OD-test.
_PARTS = {
    "train": "train",
    "test": "test",
    "all": "all",
    "validation_outlier": "validation",
    "test_outlier": "test",
}


def _read(data: str, asked: str, options: Mapping[str, Setting], source: Source) -> Raw:
    """Read a part, or the rows that OD-test takes of a set for a role."""
    images = isinstance(source.train, Images)
    size = source.train.shape[1:] if images else None
    if "size" in options:  # brought to it first, then to that of the source
        data = f"{data}(size={options['size']})"
    role = asked if asked.endswith("_outlier") else ""
    name = data.partition("(")[0]
    if role and name not in OD_TEST:
        raise unknown("data set with OD-test parts", name, OD_TEST)
    part = OD_TEST[name][cast(Role, role)].part if role else asked
    part = "test" if part == "val" else part  # where the official validation part is read as test
    raw = read_part(data, cast(Part, part), cast("tuple[int, int] | None", size))
    if isinstance(raw, Images) != images:
        kinds = ("images", "texts") if images else ("texts", "images")
        raise UserError(
            f"Outlier set '{data}' holds {kinds[1]}, but '{source.name}' holds {kinds[0]}."
        )
    if role:
        raw = raw.take(od_test_rows(name, cast(Role, role), len(raw))[1])
    return raw


def _unshared(raw: Raw, source: str, rule: str) -> NDArray[np.int64]:
    """Rows of classes that the source does not show."""
    if (raw.labels < 0).any():
        raise UserError(f"rule={rule} needs the classes of '{raw.name}', which has no labels.")
    return kept_rows(raw.labels, source, raw.name, cast(Rule, rule))


_Some = TypeVar("_Some", Images, Tokens, Images | Tokens)


def _drawn(samples: _Some, source: Source) -> _Some:
    """As many outliers as the source wants, and which ones: the draws of the instability paper."""
    if source.ood_draw is None:
        return at_most(samples, source.test_size)
    draws = outlier_draws(len(samples), min(source.test_size or len(samples), len(samples)))
    return samples.take(next(itertools.islice(draws, source.ood_draw, None)))


def _pixels(name: str, samples: Samples) -> NDArray[Any]:
    if not isinstance(samples, Images):
        raise UserError(
            f"Outlier set '{name}' is made from images, but '{samples.name}' holds texts; for "
            "these there are shuffled_words, random_words and held_out_classes."
        )
    return samples.pixels


def _numbering(source: Source) -> Numbering:
    assert source.vocabulary is not None, "texts have a vocabulary"
    return source.vocabulary


def _free_places(words: NDArray[np.int32], source: Source) -> NDArray[np.bool_]:
    """Where a part of a text stands: before its end, and no mark."""
    free: NDArray[np.bool_] = ~np.isin(words, [NOTHING, *_numbering(source).marks])
    return free


def _tokens(name: str, samples: Samples) -> Tokens:
    if isinstance(samples, Images):
        raise UserError(
            f"Outlier set '{name}' is made from texts, but '{samples.name}' holds images."
        )
    return samples


def _normal(seed: int, deviation: float, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Pixels around middle grey, clipped to what an image can hold."""
    noise = np.random.default_rng(seed).normal(0.5, deviation, shape)
    return noise.clip(0, 1).astype(np.float32)


def _outliers(name: str, pixels: NDArray[Any]) -> Images:
    return Images(name, pixels, np.full(len(pixels), -1))
