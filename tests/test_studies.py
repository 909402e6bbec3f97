"""The installed studies: every one is sound at every scale, and runs where its data are."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from oodometer.cli.studies import STUDIES
from oodometer.engine.executors.in_process import InProcess
from oodometer.engine.lead.run import run_study
from oodometer.engine.stores import FolderStore
from oodometer.errors import UserError
from oodometer.lab.data.cards import CARDS
from oodometer.lab.data.catalog import find as find_data
from oodometer.lab.data.datasets import load_parts, split_options
from oodometer.lab.data.outliers import KNOWN as MADE
from oodometer.lab.training.train import check_spec
from oodometer.protocols import PROTOCOLS
from oodometer.scoring import choices
from oodometer.study import Study, load_study, parse_study

FILES = sorted(STUDIES.glob("*.yaml"))
SCALES = [
    pytest.param(path, scale, id=f"{path.stem}-{scale or 'paper'}")
    for path in FILES
    for scale in (None, *load_study(path).scales)
]


def at(path: Path, scale: str | None) -> Study:
    study = load_study(path)
    return study if scale is None else study.at_scale(scale)


def set_named(name: str) -> str:
    """Return the data set that an outlier set such as svhn(part=test) is taken from."""
    return split_options(name, ("part", "size", "rule"))[0]


@pytest.mark.parametrize(("path", "scale"), SCALES)
def test_every_study_is_sound(path, scale):
    study = at(path, scale)
    assert study.name == path.stem + (f"-{scale}" if scale else "")
    names = {card.name for card in CARDS.values()}
    assert study.base.data in names
    for name in study.ood:
        assert name in MADE or set_named(name) in names, name
    assert all(name in PROTOCOLS for name in study.protocols)
    assert choices(study.detectors)
    for spec, _ in study.runs().values():
        check_spec(spec)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_studies_of_papers_have_all_scales(path):
    assert set(load_study(path).scales) == ({"smoke", "small"} if path.stem != "demo" else set())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_small_studies_say_what_their_classifiers_reach(path):
    study = load_study(path)
    if not study.scales or CARDS[study.base.data].kind == "texts":
        pytest.skip("without scales, or about texts")
    assert 0 < study.at_scale("small").accuracy < 1 and not study.at_scale("small").keep_unlearned
    assert study.at_scale("smoke").keep_unlearned, "it is too short to learn anything"


def is_incomplete(data: str) -> bool:
    """Whether the copy at hand has fewer training samples than the official set."""
    try:
        return len(load_parts(data).train) < (CARDS[data].train or 0)
    except UserError:  # no part to train on
        return True


@pytest.mark.parametrize("path", [f for f in FILES if f.stem != "demo"], ids=lambda path: path.stem)
def test_smoke(path, tmp_path):
    study = at(path, "smoke")
    read = {study.base.data, *(set_named(name) for name in study.ood if name not in MADE)}
    absent = sorted(name for name in read if find_data(name) is None)
    if absent or not os.environ.get("OODOMETER_DATA"):
        pytest.skip(f"OODOMETER_DATA does not lead to {', '.join(absent) or 'data'}")
    try:  # without a worker, which would import and read everything once more
        outcome = run_study(study, FolderStore(tmp_path / "store"), executor=InProcess())
    except UserError as problem:
        # A copy may be a part of the set, or outliers only. Whole copies must serve every study.
        assert is_incomplete(study.base.data), problem
        pytest.skip(str(problem))
    assert not [part for part in outcome.missing if not part.setting]
    facts = dict(outcome.findings[0].facts)
    same = dict.fromkeys(("epoch", "best_by", "features", "fitted_on", "test_size", "ood_draw"))
    trained = {spec.model_copy(update=same) for spec, _ in study.runs().values()}
    assert facts["training runs"] == str(len(trained))


SMALL = {
    "name": "s",
    "base": {"data": "digits", "epochs": 9},
    "factors": [{"field": "seed", "levels": [0, 1, 2]}],
    "ood": ["rotated"],
    "scales": {"small": {"base": {"epochs": 2}, "factors": [{"field": "seed", "levels": [5]}]}},
}


def test_a_scale_changes_what_it_names_and_nothing_else():
    study = parse_study(SMALL, "study")
    small = study.at_scale("small")
    assert small.name == "s-small" and small.base.epochs == 2 and small.ood == study.ood
    assert list(small.runs()) == ["seed=5"] and not small.scales


@pytest.mark.parametrize(
    ("scale", "sentence"),
    [
        ({"base": {"epoks": 2}}, "scale 'small', base: Unknown key 'epoks'. Did you mean 'epoch"),
        ({"factors": [{"field": "sed", "levels": [1]}]}, "Unknown factor at scale 'small' 'sed'"),
        ({"bas": {}}, "Unknown key .* 'bas'. Did you mean 'base'"),
        ({"ood": []}, "'ood' is"),
    ],
)
def test_mistakes_in_scales_are_named(scale, sentence):
    with pytest.raises(UserError, match=sentence):
        parse_study(SMALL | {"scales": {"small": scale}}, "study")
    with pytest.raises(UserError, match="Unknown scale of study 's' 'smal'. Did you mean 'small'"):
        parse_study(SMALL, "study").at_scale("smal")


def test_label_noise_runs_the_20_methods_with_the_grids_of_the_paper():
    """Humblot-Renaud et al. 2024, supplement, Table 1; all others have one configuration."""
    grids = {
        "odin": {
            "temperature": [1, 10, 100, 1000], "step": [0, 0.00035, 0.0007, 0.0014, 0.0028]
        },
        "generalized_entropy": {
            "gamma": [0.01, 0.1, 0.5, 1, 2, 5, 10], "top": [10, 50, 100, 200, 500, 1000]
        },
        "ash": {"percentile": [65, 70, 75, 80, 85, 90, 95]},
        "energy": {"temperature": [1, 10, 100, 1000]},
        "react": {"percentile": [80, 85, 90, 95, 99]},
        "dice": {"percentile": [10, 30, 50, 70, 90]},
        "knn": {"k": [50, 100, 200, 500, 1000]},
    }  # fmt: skip
    study = load_study(STUDIES / "label-noise-cifar10.yaml")
    found = {choice.detector.name: choice for choice in choices(study.detectors)}
    assert len(found) == len(study.detectors) == 20 and "tuning" in study.protocols
    for name, choice in found.items():
        tried = choice.tried(grid=True)
        values = {key: sorted({one[key] for one in tried}) for key in choice.settings}
        varied = {key: each for key, each in values.items() if len(each) > 1}
        assert varied == grids.get(name, {}), name
        assert len(tried) == math.prod(map(len, varied.values()))
    fixed = {
        "openmax": ("distance", "euclidean"),
        "ash": ("variant", "s"),
        "she": ("metric", "inner"),
    }
    assert all(found[name].settings[key] == value for name, (key, value) in fixed.items())
    assert (found["openmax"].settings["tail"], found["openmax"].settings["alpha"]) == (20, 3)
