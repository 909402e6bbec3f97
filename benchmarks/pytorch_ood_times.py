"""Time pytorch-ood's detectors as a user runs them: fit on a loader, predict batch by batch.

Run by detectors.py in an environment with pytorch-ood, on the files that it has written, with the
CPU seconds that each detector may take. Prints one line of JSON: our name of each detector, and
the CPU time of fitting it and scoring both sets; what was stopped has the time it had until then.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

# A CPU build of torch lacks torchvision's compiled operators; their schemas are enough to import.
_LIBRARY = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from pytorch_ood import detector as ood  # noqa: E402

Loader = DataLoader[tuple[torch.Tensor, ...]]


class OutOfTimeError(Exception):
    """The detector has used up its CPU time."""


def stop(*_: object) -> None:
    """Answer the alarm."""
    raise OutOfTimeError


def detectors(folder: str) -> dict[str, Callable[[], Any]]:
    """All 27 that read logits or features or reshape them, with their own defaults."""
    body = torch.jit.load(f"{folder}/body.pt")
    last_map, rest = (torch.jit.load(f"{folder}/{name}.pt") for name in ("last_map", "rest"))
    saved = np.load(f"{folder}/head.npz")
    weight, bias = torch.from_numpy(saved["weight"]), torch.from_numpy(saved["bias"])
    classes, width = weight.shape
    head = nn.Linear(width, classes)
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.copy_(bias)
    head.requires_grad_(False)
    model = nn.Sequential(body, head).eval()
    maps = nn.Sequential(body, nn.Unflatten(1, (-1, 1, 1)))
    on_maps = nn.Sequential(nn.Flatten(), head)
    return {
        "max_softmax": lambda: ood.MaxSoftmax(model),
        "temperature_scaling": lambda: ood.TemperatureScaling(model),
        "max_logit": lambda: ood.MaxLogit(model),
        "energy": lambda: ood.EnergyBased(model),
        "weighted_energy": lambda: ood.WeightedEBO(model, torch.ones(classes)),
        "entropy": lambda: ood.Entropy(model),
        "generalized_entropy": lambda: ood.GEN(model),
        "kl_matching": lambda: ood.KLMatching(model),
        "openmax": lambda: ood.OpenMax(model),
        "mahalanobis": lambda: ood.Mahalanobis(body),
        "relative_mahalanobis": lambda: ood.RMD(body),
        "knn": lambda: ood.KNN(body),
        "vim": lambda: ood.ViM(body, width // 2, weight, bias),
        "nci": lambda: ood.NCI(body, head),
        "nnguide": lambda: ood.NNGuide(body, head),
        "she": lambda: ood.SHE(body, head),
        "gaussian_mixture": lambda: ood.GMM(body),
        "cosine_to_class_weight": lambda: ood.MCM(body, weight),
        "pnml": lambda: ood.PNML(body, head),
        "lts": lambda: ood.LTS(body, head),
        "fdbd": lambda: ood.fDBD(body, head),
        "react": lambda: ood.ReAct(maps, on_maps),
        "dice": lambda: ood.DICE(body, weight, bias, p=0.7),
        "ash": lambda: ood.ASH(maps, on_maps),
        "scale": lambda: ood.SCALE(maps, on_maps),
        "vra": lambda: ood.VRA(maps, on_maps),
        "rankfeat": lambda: ood.RankFeat(last_map, rest),
    }


def loaders(folder: str, rows: int | None = None) -> dict[str, Loader]:
    """The data sets, or their first rows."""
    found = {}
    for name in ("train", "test", "noise"):
        images = torch.from_numpy(np.load(f"{folder}/{name}.npy")[:rows])
        labels = torch.from_numpy(np.load(f"{folder}/{name}_labels.npy")[:rows])
        found[name] = DataLoader(TensorDataset(images, labels), batch_size=128)
    return found


@torch.no_grad()
def fit_and_score(make: Callable[[], Any], data: dict[str, Loader]) -> None:
    """What a user of one detector does."""
    detector = make()
    detector.fit(data["train"])
    for part in ("test", "noise"):
        for images, _ in data[part]:
            detector.predict(images)


def main(folder: str, limit: float) -> None:
    """Time every detector."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, stop)
    made, data = detectors(folder), loaders(folder)
    few = loaders(folder, 512)  # what is loaded from a file is compiled on its first calls
    fit_and_score(made["max_softmax"], few)
    fit_and_score(made["rankfeat"], few)
    found, stopped = {}, []
    for name, make in made.items():
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, limit)
        try:
            fit_and_score(make, data)
        except OutOfTimeError:
            stopped.append(name)
        except Exception as problem:  # noqa: BLE001 - say it and go on with the next
            print(f"{name}: {type(problem).__name__}: {problem}", file=sys.stderr)
            continue
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        found[name] = time.process_time() - started
    print(json.dumps({"seconds": found, "stopped": stopped}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
