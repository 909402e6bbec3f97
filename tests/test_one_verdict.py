"""The same numbers have one verdict: in any order of lines, under any names, in any unit."""

import re

import numpy as np
import pandas as pd
import pytest

import oodometer as om

NAMES = ("Energy", "MSP", "KNN", "ViM", "ODIN")
OTHERS = ("Zeta", "Alpha9", "Kilo", "Bravo", "Corvus")
DESIGNS = {  # axis -> levels; sets with gaps have different numbers of runs
    "optimizers": {"ood_dataset": 2, "optimizer": 3},
    "folds x seeds": {"id_dataset": 2, "ood_dataset": 2, "fold": 4, "seed": 4},
    "folds of four sets": {"id_dataset": 4, "ood_dataset": 2, "fold": 5},
    "optimizers x seeds": {"ood_dataset": 3, "optimizer": 2, "seed": 5},
    "own seeds": {"id_dataset": 2, "ood_dataset": 1, "split": 3, "seed": 3},
}
LEVELS = {
    "id_dataset": ("CIFAR-10", "CIFAR-100", "ImageNet-200", "STL10"),
    "ood_dataset": ("SVHN", "Textures", "Places365"),
    "optimizer": ("adam", "sgd", "rmsprop"),
}


def table(design, seed):
    rng = np.random.default_rng(seed)
    axes = {n: LEVELS.get(n, tuple(range(9)))[:many] for n, many in DESIGNS[design].items()}
    shape = (3, *map(len, axes.values()))
    values = 0.75 + 0.02 * rng.normal(size=shape) + 0.02 * np.arange(3).reshape(3, *[1] * len(axes))
    values = np.where(rng.random(shape) < 0.06, np.nan, np.round(values, 5))
    lines = [
        {"method": NAMES[place[0]], "auroc": value,
         **{name: own[at] for (name, own), at in zip(axes.items(), place[1:], strict=True)}}
        for place, value in np.ndenumerate(values) if not np.isnan(value)
    ]  # fmt: skip
    frame = pd.DataFrame(lines)
    if design == "own seeds":
        frame["seed"] += 100 * (frame["id_dataset"] == "CIFAR-10")
    return frame


def told(frame, columns="", names=None):
    """Verdicts and words of all claims, whatever the order in which things are listed."""
    pages = []
    for finding in om.analyze(frame, columns=columns):
        claims = [(claim.verdict, claim.text) for claim in finding.claims]
        for verdict, text in [("answer", finding.answer), *claims]:
            said = re.sub(r"\b(and|or)\b|,", "", text)
            found = (word.strip(".") for word in re.findall(r"[\w./%−-]+", said))
            words = [(names or {}).get(word, word) for word in found]
            pages.append((finding.protocol, verdict, tuple(sorted(words))))
    return sorted(pages)


@pytest.mark.parametrize("design", DESIGNS)
def test_a_table_has_one_verdict(design):
    frame = table(design, 0)
    expected = told(frame)
    assert told(frame.sample(frac=1.0, random_state=0)) == expected
    assert told(frame.assign(auroc=100 * frame["auroc"])) == expected
    names = dict(zip(OTHERS, NAMES, strict=True))
    renamed = frame.assign(method=frame["method"].map({v: k for k, v in names.items()}))
    assert told(renamed, names=names) == expected


@pytest.mark.parametrize("design", DESIGNS)
def test_a_loss_and_a_gain_have_one_verdict(design):
    """But for robustness, whose published score is another one for losses."""
    frame = table(design, 0).rename(columns={"auroc": "x"})
    pages = []
    for columns, own in (("higher=x", frame), ("lower=x", frame.assign(x=1.0 - frame["x"]))):
        told_here = told(own, columns)
        pages.append([
            (protocol, verdict, {"lowest": "highest"}.get(word, word))
            for protocol, verdict, words in told_here if protocol != "robustness"
            for word in words if not re.search(r"\d", word)
        ])  # fmt: skip
    assert sorted(pages[0]) == sorted(pages[1])
