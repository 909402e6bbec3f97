"""Remake pytorch_ood.json: what pytorch-ood 0.4.0 says about a few small arrays.

Not a test and not run by the tests: it needs an environment of its own, because torchvision
breaks other packages beside a CPU build of torch.

    python -m venv /tmp/oracle
    /tmp/oracle/bin/pip install torch==2.13.0 torchvision==0.28.0 pytorch-ood==0.4.0 scikit-learn
    /tmp/oracle/bin/python tests/oracles/make_pytorch_ood.py

The arrays are rounded to four decimals and stored beside the scores, so the tests need neither
this script nor its random numbers.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from torch import nn

# A CPU build of torch lacks torchvision's compiled operators; their schemas are enough to import.
_LIBRARY = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from pytorch_ood import __version__ as version  # noqa: E402
from pytorch_ood import detector as ood  # noqa: E402

CLASSES, WIDTH, TRAIN, TEST = 5, 12, 160, 30
# Without this, arrays that the library makes itself are float32 and cost the digits to compare.
torch.set_default_dtype(torch.float64)


def arrays() -> dict[str, np.ndarray]:
    """Rectified features around one centre per class, a head that mostly agrees with the labels."""
    rng = np.random.default_rng(20240)
    centres = 2 * rng.random((CLASSES, WIDTH))
    labels = np.arange(TRAIN) % CLASSES
    train = centres[labels] + 0.6 * rng.standard_normal((TRAIN, WIDTH))
    test = centres[np.arange(TEST) % CLASSES] + 1.5 * rng.standard_normal((TEST, WIDTH))
    weight = centres - centres.mean(0) + 0.1 * rng.standard_normal((CLASSES, WIDTH))
    bias = 0.3 * rng.standard_normal(CLASSES)
    found = {
        "train": np.maximum(train, 0),
        "test": np.maximum(test, 0),
        "weight": weight,
        "bias": bias,
    }
    return {name: value.round(4) for name, value in found.items()} | {"labels": labels}


def scores(data: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """Every detector that both libraries have, by the name and settings that it has in ours."""
    train, test, weight, bias, labels = (
        torch.from_numpy(data[name]) for name in ("train", "test", "weight", "bias", "labels")
    )
    head = nn.Linear(WIDTH, CLASSES)
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.copy_(bias)
    with torch.no_grad():
        train_logits, logits = head(train), head(test)
    maps = test[:, :, None, None]
    on_maps = nn.Sequential(nn.Flatten(), head)
    found = {
        "max_softmax": ood.MaxSoftmax(None).predict_logits(logits),
        "max_logit": ood.MaxLogit(None).predict_logits(logits),
        "entropy": ood.Entropy(None).predict_logits(logits),
        "kl_matching": ood.KLMatching(None).fit_logits(train_logits).predict_logits(logits),
        "mahalanobis": ood.Mahalanobis(None).fit_features(train, labels).predict_features(test),
        "mahalanobis(space=logits)": ood.Mahalanobis(None)
        .fit_features(train_logits, labels)
        .predict_features(logits),
        "relative_mahalanobis": ood.RMD(None).fit_features(train, labels).predict_features(test),
        "she": ood.SHE(None, head).fit_features(train, labels).predict_features(test),
        "vim": ood.ViM(None, WIDTH // 2, weight, bias)
        .fit_features(train, labels)
        .predict_features(test),
        "gradnorm": ood.GradNorm(head, param_filter=lambda name: name == "weight").predict(test),
    }
    for heat in (1.0, 10.0, 1000.0):
        found[f"energy(temperature={heat})"] = ood.EnergyBased(None, t=heat).predict_logits(logits)
        found[f"odin_without_perturbation(temperature={heat})"] = ood.ODIN(
            head, eps=0.0, temperature=heat
        ).predict(test)
    for gamma, top in ((0.1, 100), (0.01, 3), (1.0, 2), (2.0, 5)):
        found[f"generalized_entropy(gamma={gamma}, top={top})"] = ood.GEN(
            None, gamma=gamma, M=top
        ).predict_logits(logits)
    for k, normalize in ((1, True), (10, True), (50, True), (7, False)):
        found[f"knn(k={k}, normalize={normalize})"] = (
            ood.KNN(None, k=k, normalize=normalize)
            .fit_features(train, labels)
            .predict_features(test)
        )
    for percent in (80, 90, 99):
        found[f"react(percentile={percent})"] = (
            ood.ReAct(None, head, percentile=percent / 100)
            .fit_feature_maps(train, labels)
            .predict_feature_maps(test)
        )
    torch.set_default_dtype(torch.float32)  # its DICE mixes the types otherwise
    for percent in (10, 50, 90):
        found[f"dice(percentile={percent})"] = (
            ood.DICE(None, weight, bias, p=percent / 100)
            .fit_features(train, labels)
            .predict_features(test)
        )
    torch.set_default_dtype(torch.float64)
    for variant in "spb":
        for percent in (65, 90):
            found[f"ash(percentile={percent}, variant={variant})"] = ood.ASH(
                None, on_maps, variant=f"ash-{variant}", percentile=percent / 100
            ).predict_feature_maps(maps.clone())
    for percent in (65, 85, 95):
        found[f"scale(percentile={percent})"] = ood.SCALE(
            None, on_maps, percentile=percent / 100
        ).predict_feature_maps(maps.clone())
        found[f"lts(percentile={percent})"] = ood.LTS(
            None, head, p=1 - percent / 100
        ).predict_features(test)
    residual = ood.ViM(None, WIDTH // 2, weight, bias).fit_features(train, labels)
    # Its score is alpha times this, less the logarithm of the summed exponentials.
    virtual = residual.predict_features(test) + logits.logsumexp(1)
    found["residual"] = virtual / residual.alpha
    # Its VRA has thresholds for every unit: those of all numbers, if every unit has the same ones.
    # Of 101 numbers, no percentile falls between two.
    alike = torch.stack([train[:101, 0].roll(7 * unit) for unit in range(WIDTH)], dim=1)
    for low, high in ((5, 95), (60, 90), (75, 99)):
        name = f"vra(low={low}, high={high}, below=clip): units alike"
        found[name] = (
            ood.VRA(None, head, low / 100, high / 100)
            .fit_feature_maps(alike, labels[:101])
            .predict_feature_maps(test)
        )
    found |= fitted_on_logits(train_logits, labels, logits)
    return found | fitted_on_features(train, labels, test, head)


def fitted_on_logits(
    train: torch.Tensor, labels: torch.Tensor, test: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Detectors that read the logits and the labels of the training set."""
    scaling = ood.TemperatureScaling(None)
    with torch.no_grad():
        scaling.t.fill_(1.5)  # where the papers' code starts; it starts from 1
    count = torch.bincount(labels).double()
    unequal = (labels != 0) | (torch.arange(len(labels)) < 10)  # two samples of class 0 are left
    share = torch.bincount(labels[unequal]).double()
    found = {
        "temperature_scaling(steps=50)": scaling.fit_logits(train, labels).predict_logits(test),
        "weighted_energy": ood.WeightedEBO(None, len(labels) / len(count) / count).predict_logits(
            test
        ),
        "weighted_energy: class 0 is rare": ood.WeightedEBO(
            None, share.sum() / len(share) / share
        ).predict_logits(test),
    }
    correct = train.argmax(1) == labels  # it fits whatever it is given; the papers, these
    # It takes the distance to a class that nothing in the batch is predicted as for 0.
    every_class = torch.eye(train.shape[1])
    for alpha in (1, 3, 10):
        for tail in (5, 20):
            found[f"openmax(alpha={alpha}, tail={tail}, shift=10000)"] = (
                ood.OpenMax(None, tailsize=tail, alpha=alpha)
                .fit_logits(train[correct], labels[correct])
                .predict_logits(torch.cat([test, every_class]))[: len(test)]
            )
    return found


def fitted_on_features(
    train: torch.Tensor, labels: torch.Tensor, test: torch.Tensor, head: nn.Linear
) -> dict[str, torch.Tensor]:
    """Detectors that read the features of the training set; most compute in float32."""

    def of(detector: ood.Detector) -> torch.Tensor:
        return detector.fit_features(train, labels).predict_features(test)

    # pNML and NNGuide mix the types unless the head is what they make of the features.
    single = nn.Linear(WIDTH, CLASSES).float()
    single.load_state_dict(head.state_dict())
    found = {
        "pnml": of(ood.PNML(None, single)),
        "fdbd": of(ood.fDBD(None, single)),
        "gaussian_mixture": of(ood.GMM(None, reg=1e-12)),
    }
    for alpha in (0.0, 0.01, 0.1):
        found[f"nci(alpha={alpha})"] = of(ood.NCI(None, single, alpha=alpha))
    for heat in (0.1, 1.0):
        found[f"cosine_to_class_weight(temperature={heat})"] = ood.MCM(
            None, head.weight.detach(), temperature=heat
        ).predict_features(test)
    for k in (1, 10, 100):
        found[f"nnguide(k={k})"] = (
            ood.NNGuide(None, single, k=k)
            .fit_features(train, labels)
            .predict_features(test.float())
        )
    return found


def main() -> None:
    """Write the arrays and the scores."""
    data = arrays()
    numbers = {
        name: [float(f"{value:.10g}") for value in values.detach().double().tolist()]
        for name, values in scores(data).items()
    }
    made = {
        "library": f"pytorch-ood {version}, torch {torch.__version__}",
        "arrays": {name: value.tolist() for name, value in data.items()},
        "scores": {name: values for name, values in numbers.items() if ":" not in name},
        "others": {name: values for name, values in numbers.items() if ":" in name},
    }
    path = Path(__file__).with_name("pytorch_ood.json")
    rows = json.dumps(made).replace('"scores"', '\n"scores"').replace("], ", "],\n")
    path.write_text(rows + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
