"""Time pytorch-ood's detectors as a user runs them: fit on a loader, predict batch by batch.

Run by detectors.py in an environment with pytorch-ood, on the files that it has written. Prints one
line of JSON: our name of each detector, and the CPU time of fitting it and scoring both sets.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

# A CPU build of torch lacks torchvision's compiled operators; their schemas are enough to import.
_LIBRARY = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from pytorch_ood import detector as ood  # noqa: E402


def main(folder: str) -> None:
    """Time every detector that reads logits or features."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    body = torch.jit.load(f"{folder}/body.pt")
    saved = np.load(f"{folder}/head.npz")
    weight, bias = torch.from_numpy(saved["weight"]), torch.from_numpy(saved["bias"])
    head = nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.copy_(bias)
    head.requires_grad_(False)
    model = nn.Sequential(body, head).eval()
    maps, on_maps = (
        nn.Sequential(body, nn.Unflatten(1, (-1, 1, 1))),
        nn.Sequential(nn.Flatten(), head),
    )
    data = {}
    for name in ("train", "test", "noise"):
        images = torch.from_numpy(np.load(f"{folder}/{name}.npy"))
        labels = torch.from_numpy(np.load(f"{folder}/{name}_labels.npy"))
        data[name] = DataLoader(TensorDataset(images, labels), batch_size=128)
    classes, width = weight.shape
    made = {
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
        "react": lambda: ood.ReAct(maps, on_maps),
        "dice": lambda: ood.DICE(body, weight, bias, p=0.7),
        "ash": lambda: ood.ASH(maps, on_maps),
        "scale": lambda: ood.SCALE(maps, on_maps),
        "vra": lambda: ood.VRA(maps, on_maps),
    }
    if hasattr(ood, "fDBD"):
        made["fdbd"] = lambda: ood.fDBD(body, head)
    found = {}
    for name, make in made.items():
        started = time.process_time()
        try:
            detector = make()
            with torch.no_grad():
                detector.fit(data["train"])
                for part in ("test", "noise"):
                    for images, _ in data[part]:
                        detector.predict(images)
        except Exception as problem:  # noqa: BLE001 - say it and go on with the next
            print(f"{name}: {type(problem).__name__}: {problem}", file=sys.stderr)
            continue
        found[name] = time.process_time() - started
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
