"""Remake pytorch_ood_probes.json: what pytorch-ood 0.4.0 says about a small network and images.

Not a test and not run by the tests: see make_pytorch_ood.py for the environment that it needs.

    /tmp/oracle/bin/python tests/oracles/make_pytorch_ood_probes.py

Weights and images are rounded to four decimals and stored beside the scores, so the tests need
neither this script nor its random numbers.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

# A CPU build of torch lacks torchvision's compiled operators; their schemas are enough to import.
_LIBRARY = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from pytorch_ood import __version__ as version  # noqa: E402
from pytorch_ood import detector as ood  # noqa: E402
from pytorch_ood.detector import nac as ood_nac  # noqa: E402

CLASSES, TRAIN, TEST = 3, 45, 10
torch.set_default_dtype(torch.float64)


def network() -> nn.Sequential:
    """Two stages that give maps, a vector, a head; every activation a little alive."""
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ELU(), nn.MaxPool2d(2)),
        nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.ELU()),
        nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 8), nn.ELU()),
        nn.Linear(8, CLASSES),
    )


def main() -> None:
    """Write weights, images and scores."""
    torch.manual_seed(7)
    model = network().eval()
    with torch.no_grad():
        for value in model.parameters():
            value.copy_((1.5 * value).round(decimals=4))
    train, test = (torch.rand(n, 1, 6, 6).round(decimals=4) for n in (TRAIN, TEST))
    # Labels that the network agrees with, so that "predicted" and "labelled" are the same here,
    # and a head that predicts every class.
    with torch.no_grad():
        model[3].bias -= model(train).mean(0).round(decimals=4)
        model[3].weight.mul_(5)
        model[3].bias.mul_(5)
        labels = model(train).argmax(1)
    assert labels.bincount(minlength=CLASSES).min() >= 5, labels.bincount()
    loader = DataLoader(TensorDataset(train, labels), batch_size=16)
    body, head = model[:3], model[3]

    found: dict[str, torch.Tensor] = {}
    for heat, step in ((1.0, 0.0028), (10.0, 0.0007), (1000.0, 0.0014), (1000.0, 0.0)):
        found[f"odin(temperature={heat}, step={step})"] = ood.ODIN(
            model, eps=step, temperature=heat
        ).predict(test)
    for heat, step in ((5.0, 0.0012), (200.0, 0.004)):
        found[f"odin_fine(temperature={heat}, step={step})"] = ood.ODIN(
            model, eps=step, temperature=heat
        ).predict(test)
    for step in (0.0, 0.001, 0.01):
        moved = ood.MahalanobisODIN(body, eps=step)
        moved.fit_features(body(train).detach(), labels)
        found[f"mahalanobis_perturbed(step={step})"] = moved.predict(test)
    layers = [model[: end + 1] for end in range(3)]

    def pooled(images: torch.Tensor) -> list[torch.Tensor]:
        return [layer(images).detach().flatten(2).mean(2) for layer in layers[:2]] + [
            layers[2](images).detach()
        ]

    found["mahalanobis_ensemble"] = (
        ood.MultiMahalanobis(layers)
        .fit_structured(pooled(train), labels)
        .predict_structured(pooled(test))
    )
    found["gradient_uncertainty"] = ood.GradUncertainty(model).predict(test)
    found["gradient_uncertainty(weights=head)"] = ood.GradUncertainty(
        model, param_filter=lambda name: name.startswith("3.")
    ).predict(test)
    found["rankfeat(blocks=last)"] = ood.RankFeat(model[:2], model[2:]).predict(test)
    found["rankfeat(blocks=previous)"] = ood.RankFeat(model[:1], model[1:]).predict(test)

    gram = ood.Gram(head, [model[0], model[1], model[2]], CLASSES, list(range(1, 11)))
    gram.validation_fraction = 0.0  # all samples give the ranges
    gram.fit(loader)
    assert (gram.layer_norm == 1).all()
    found["gram"] = gram.predict(test)

    # It has the paper's even bins too, but uses geometric ones.
    ood_nac._bin_indices_geometric = ood_nac._bin_indices
    for steepness, bins, full in ((100.0, 50, 5), (10.0, 500, 3)):
        coverage = ood.NACUE(model, [model[0], model[1], model[2]], bins, steepness, full)
        name = f"nac(steepness={steepness}, bins={bins}, full={full})"
        found[name] = coverage.fit(loader).predict(test)

    made = {
        "library": f"pytorch-ood {version}, torch {torch.__version__}",
        "weights": {name: value.tolist() for name, value in model.state_dict().items()},
        "train": train.round(decimals=4).tolist(),
        "labels": labels.tolist(),
        "test": test.tolist(),
        "scores": {
            name: [float(f"{value:.10g}") for value in values.detach().double().tolist()]
            for name, values in found.items()
        },
    }
    path = Path(__file__).with_name("pytorch_ood_probes.json")
    path.write_text(
        json.dumps(made, separators=(",", ":")).replace('],"', '],\n"') + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
