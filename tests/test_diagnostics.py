"""Diagnostics: what is planted is found, and nothing is found where nothing is."""

from __future__ import annotations

import io

import numpy as np
import pytest

from oodometer.diagnosis import diagnose
from oodometer.errors import UserError
from oodometer.finding import Claim, Finding, from_json, to_json
from oodometer.lab.data import shortcuts
from oodometer.lab.data.class_names import shared_names
from oodometer.lab.data.duplicates import exact_copies, near_copies
from oodometer.reports.text import markdown


def pictures(count: int, seed: int, channels: int = 3, side: int = 32) -> np.ndarray:
    """Images with the spectrum of photographs (amplitude 1 / frequency), no two alike."""
    rng = np.random.default_rng(seed)
    across, down = np.fft.rfftfreq(side), np.fft.fftfreq(side)
    amplitude = 1 / np.maximum(np.hypot(down[:, None], across), 1 / side)
    shared = rng.normal(size=(count, 1, side, side))
    own = 0.3 * rng.normal(size=(count, channels, side, side))
    waves = np.fft.irfft2(np.fft.rfft2(shared + own) * amplitude, s=(side, side))
    waves /= waves.std(axis=(1, 2, 3), keepdims=True)
    bright = rng.uniform(0.4, 0.6, (count, 1, 1, 1))
    return (bright + rng.uniform(0.1, 0.2, (count, 1, 1, 1)) * waves).clip(0, 1).astype(np.float32)


def jpeg(images: np.ndarray, quality: int) -> np.ndarray:
    from PIL import Image

    coded = []
    for pixels in (images * 255).round().astype(np.uint8):
        file = io.BytesIO()
        Image.fromarray(pixels.transpose(1, 2, 0)).save(file, "JPEG", quality=quality)
        coded.append(np.asarray(Image.open(file)).transpose(2, 0, 1) / np.float32(255))
    return np.stack(coded)


def claims(finding: Finding) -> dict[str, Claim]:
    kinds = {"exact": "exact copy", "near": "near copy", "shortcut": "statistics", "class": "class"}
    return {
        kind: claim
        for kind, words in kinds.items()
        for claim in finding.claims
        if words in claim.text
    }


def test_exact_copies_are_found_and_counted():
    known, outliers = pictures(300, 0), pictures(200, 1)
    outliers[[3, 77]] = known[[10, 250]]
    assert [copy[:2] for copy in exact_copies(known, outliers)] == [(10, 3), (250, 77)]
    claim = claims(diagnose(known, outliers, id_name="birds", ood_name="boats"))["exact"]
    assert claim.verdict == "warning"
    assert claim.text.startswith("2 of 200 images of boats have an exact copy in birds")


CHANGES = {
    "noise": lambda x: (x + np.random.default_rng(5).normal(0, 0.02, x.shape)).clip(0, 1),
    "one pixel down": lambda x: np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 0)), "edge")[:, :, :-1],
    "one pixel left": lambda x: np.pad(x, ((0, 0), (0, 0), (0, 0), (0, 1)), "edge")[..., 1:],
    "darker": lambda x: 0.8 * x,
    "mirrored": lambda x: x[..., ::-1],
    "re-encoded": lambda x: jpeg(x, 75),
}


@pytest.mark.parametrize("change", CHANGES)
def test_near_copies_are_found(change):
    known, outliers = pictures(400, 0), pictures(200, 1)
    outliers[50:70] = CHANGES[change](known[100:120])
    assert not exact_copies(known, outliers)
    found = near_copies(known, outliers, 0.95)
    assert [copy[:2] for copy in found] == [(100 + row, 50 + row) for row in range(20)]
    assert all(0.95 <= copy.correlation <= 1 for copy in found)


@pytest.mark.parametrize(("channels", "side"), [(3, 32), (1, 28), (1, 8)])
def test_different_images_are_no_copies(channels, side):
    known, outliers = (pictures(400, seed, channels, side) for seed in (0, 1))
    found = claims(diagnose(known, outliers))
    assert found["exact"].verdict == "holds"
    assert found["near"].verdict == "holds"


def test_plain_images_are_no_near_copies_of_each_other():
    grey = np.full((30, 1, 16, 16), 0.5, dtype=np.float32)
    assert not near_copies(grey, 0.9 * grey, 0.95)
    assert len(exact_copies(grey, grey)) == 30


def test_search_in_pieces_is_the_same_search(monkeypatch):
    known, outliers = pictures(300, 0), pictures(150, 1)
    outliers[:90] = CHANGES["noise"](known[:90])
    whole = near_copies(known, outliers, 0.95)
    monkeypatch.setattr("oodometer.lab.data.duplicates._CHUNK", 1000)
    monkeypatch.setattr("oodometer.lab.data.duplicates._PAIRS", 7)
    pieces = near_copies(known, outliers, 0.95)
    assert [copy[:2] for copy in pieces] == [copy[:2] for copy in whole]


def test_brightness_gives_a_set_away():
    known, outliers = pictures(500, 0), (pictures(500, 1) + 0.15).clip(0, 1)
    finding = diagnose(known, outliers, id_name="day", ood_name="noon")
    claim = claims(finding)["shortcut"]
    assert claim.verdict == "warning"
    assert "above all brightness" in claim.text
    assert "separate noon from day" in claim.text
    assert "a detector may use nothing else" in claim.text
    (table,) = (table for table in finding.tables if table.name == "shortcuts")
    assert table.rows[0][0] == "brightness"
    assert table.rows[0][1].low > 0.9


@pytest.mark.parametrize("channels", [1, 3])
def test_two_halves_of_one_set_have_no_shortcut(channels):
    whole = pictures(3000, 0, channels, 16)
    finding = diagnose(whole[::2], whole[1::2])
    (series,) = finding.series
    point = next(point for point in series.points if point["label"] == "all together")
    assert point["low"] < 0.5 < point["high"]
    claim = claims(finding)["shortcut"]
    assert claim.verdict == "holds"
    assert "hardly separate" in claim.text


def test_the_probe_keeps_its_level():
    """Without any difference, intervals miss 0.5 about as seldom as they promise."""
    rng = np.random.default_rng(0)
    from oodometer.metrics import auroc_interval

    missed = 0
    for seed in range(60):
        first, second = (
            {name: rng.normal(size=200) for name in shortcuts.MEANINGS} for _ in range(2)
        )
        estimate = auroc_interval(*shortcuts.probe(first, second, seed))
        missed += estimate.low > 0.5  # a shortcut where there is none
    assert missed <= 4


def test_blocks_of_jpeg_are_seen():
    images = pictures(300, 0)
    plain = shortcuts.statistics(images)["blockiness"]
    for quality, least in ((30, 0.95), (60, 0.75)):
        coded = shortcuts.statistics(jpeg(images, quality))["blockiness"]
        assert (coded > plain).mean() > least
    finding = diagnose(pictures(300, 1), jpeg(images, 30), ood_name="compressed")
    assert claims(finding)["shortcut"].verdict == "warning"
    assert finding.answer.startswith("compressed is a doubtful outlier set for ")


def test_statistics_of_known_images():
    flat = np.full((1, 3, 16, 16), 0.25, dtype=np.float32)
    values = {name: value.item() for name, value in shortcuts.statistics(flat).items()}
    assert values.pop("brightness") == pytest.approx(0.25)
    assert values == pytest.approx(dict.fromkeys(values, 0.0), abs=1e-6)
    red = np.zeros((1, 3, 16, 16), dtype=np.float32)
    red[:, 0] = 1
    values = {name: value.item() for name, value in shortcuts.statistics(red).items()}
    assert values["saturation"] == pytest.approx(1)
    assert values["warmth"] == pytest.approx(1)
    assert values["greenness"] == pytest.approx(-0.5)
    board = (np.indices((16, 16)).sum(axis=0) % 2).astype(np.float32)[None, None]
    values = {name: value.item() for name, value in shortcuts.statistics(board).items()}
    assert values["sharpness"] == pytest.approx(4)
    assert values["contrast"] == pytest.approx(0.5)
    assert values["clipping"] == 1
    assert "saturation" not in values
    blocks = np.zeros((1, 1, 16, 16), dtype=np.float32)
    blocks[:, :, 8:] = 1
    assert shortcuts.statistics(blocks)["blockiness"].item() == pytest.approx(1)
    framed = np.zeros((1, 1, 16, 16), dtype=np.float32)
    framed[:, :, [0, -1]] = framed[:, :, :, [0, -1]] = 1
    assert shortcuts.statistics(framed)["frame"].item() == pytest.approx(1)


def test_shared_names():
    first = ["airplane", "Pickup_Truck", "butterflies", "bus", "House", "seaHorse"]
    second = ["Airplanes", "truck", "monarch, Butterfly", "buses", "houses", "sea-horse", "other"]
    pairs = [(pair.id_class, pair.ood_class, pair.kind) for pair in shared_names(first, second)]
    assert pairs == [
        ("airplane", "Airplanes", "same"),
        ("butterflies", "monarch, Butterfly", "same"),
        ("bus", "buses", "same"),
        ("House", "houses", "same"),
        ("seaHorse", "sea-horse", "same"),
        ("Pickup_Truck", "truck", "shared word"),
    ]


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict", "words"),
    [
        (["cat", "dog"], ["Cats", "boat"], "warning", "b has classes that a also has: Cats."),
        (["truck"], ["fire_truck"], "undecided", "1 pair shares a word"),
        (["cat"], ["boat"], "holds", "No class of b has the name of one of a."),
    ],
)
def test_claims_on_classes(ours, theirs, verdict, words):
    images = pictures(30, 0), pictures(30, 1)
    finding = diagnose(*images, id_name="a", ood_name="b", id_classes=ours, ood_classes=theirs)
    claim = claims(finding)["class"]
    assert claim.verdict == verdict
    assert words in claim.text


def test_what_could_not_be_asked_is_said():
    finding = diagnose(pictures(10, 0), pictures(10, 1))
    assert len(finding.missing) == 2
    assert finding.answer.endswith("no check warns.")
    assert "25 images per set" in finding.missing[1]
    assert not finding.series


def test_findings_are_read_and_written_like_all_others():
    known, outliers = pictures(60, 0), pictures(60, 1)
    outliers[:30] = CHANGES["noise"](known[:30])
    finding = diagnose(known, outliers, id_classes=["a cat"], ood_classes=["cats"])
    assert from_json(to_json(finding)) == finding
    assert finding.tables[0].note == "The first 20 of 30."
    assert "near copy" in markdown(finding)
    again = diagnose(known, outliers, id_classes=["a cat"], ood_classes=["cats"])
    assert again == finding, "repeatable"


def test_bytes_and_floats_agree():
    images = (pictures(60, 0) * 255).round().astype(np.uint8)
    others = (pictures(60, 1) * 255).round().astype(np.uint8)
    assert diagnose(images, others) == diagnose(images / np.float32(255), others / np.float32(255))


def test_bad_arguments_are_refused():
    good = pictures(30, 0)
    for call, message in [
        (lambda: diagnose(good[:, :2], good), "must have shape"),
        (lambda: diagnose(good[0], good), "must have shape"),
        (lambda: diagnose(good, good[:0]), "must have shape"),
        (lambda: diagnose(good, good[:, :, 1:]), "both must agree"),
        (lambda: diagnose(good, good - 1), "must lie in"),
        (lambda: diagnose(good, good * np.nan), "must lie in"),
        (lambda: diagnose(good, good, near=1.5), "near must be a correlation"),
    ]:
        with pytest.raises(UserError, match=message):
            call()
