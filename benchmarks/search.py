"""What a step of the search costs, in forward passes of the network that is searched against.

python benchmarks/search.py [images]

The same network, images and run; CPU time of one thread. A pass is a forward pass in eval mode
without gradients, in the memory layout that sessions use.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

import oodometer.builtin  # noqa: F401 - importing registers the built-in detectors
from oodometer.attacks.scorers import opened, scores_of
from oodometer.lab.search import Energy, affine, color
from oodometer.lab.search.chains import Chains
from oodometer.lab.search.methods import metropolis
from oodometer.lab.training.networks import build_network
from oodometer.scoring import choices

IMAGES = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
SHAPE, BATCH = (3, 32, 32), 500
FEW = min(IMAGES, 200)  # images that are varied one at a time


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The quickest of several runs, in CPU time."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def main() -> None:
    """Print one line per network, variation and detector."""
    torch.set_num_threads(1)
    images = torch.rand(IMAGES, *SHAPE)
    for name, width in (("small_cnn", 32), ("fast_resnet", 16), ("resnet18", 16)):
        measure(name, width, images)


def measure(name: str, width: int, images: Tensor) -> None:
    """Print what proposals, searches and their overhead cost."""
    model = build_network(name, SHAPE, 10, width).eval()
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    parts = torch.split(images, BATCH)

    def forward() -> None:
        with torch.no_grad():
            for part in parts:
                model(part.contiguous(memory_format=torch.channels_last))

    one = seconds(forward)
    print(f"{name}, width {width}: one pass of {IMAGES} images {one:.3f} s")
    for made in (affine(SHAPE), color(SHAPE)):
        latent = torch.rand(IMAGES, made.dimensions)
        batched = seconds(lambda m=made, z=latent: m.images(images, z))  # type: ignore[misc]
        single = seconds(
            lambda m=made, z=latent: [m.images(images[i : i + 1], z[i : i + 1]) for i in range(FEW)]  # type: ignore[misc]
        )
        loop = single * IMAGES / FEW
        print(
            f"  {made.name:7s} proposals {batched / one:6.1%} of a pass; "
            f"one image at a time {loop / batched:5.1f} times as long"
        )
    train = torch.rand(500, *SHAPE), torch.arange(500) % 10
    shift, scale = torch.zeros(1), torch.ones(1)
    with opened(
        model, choices(["max_softmax", "energy"]), *train, shift, scale, None, "cpu", BATCH
    ) as (
        scorers,
        _,
    ):
        for detector, scorer in scorers.items():
            scoring = seconds(lambda s=scorer: scores_of(s, images, BATCH))  # type: ignore[misc]
            energy = Energy(scorer, affine(SHAPE), images, batch_size=BATCH)
            chains = Chains.begin(energy, energy.variation, IMAGES, 0, at_random=True)
            step = metropolis().step
            whole = seconds(lambda s=step, e=energy, c=chains: s(e, c))  # type: ignore[misc]
            varied = seconds(lambda c=chains, e=energy: e.variation.images(images, c.latent))  # type: ignore[misc]
            rest = whole - scoring - varied
            print(
                f"  {detector:12s} step {whole / one:5.2f} passes: forward {one / whole:5.1%}, "
                f"rest of scoring {(scoring - one) / whole:5.1%}, proposals {varied / whole:5.1%}, "
                f"search itself {rest / whole:5.1%}"
            )


if __name__ == "__main__":
    main()
