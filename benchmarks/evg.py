"""What a step of the search costs, in forward passes of the network that is searched against.

python benchmarks/evg.py [images]

The same network, images and run; CPU time of one thread. A pass is a forward pass in eval mode
without gradients, in the memory layout that sessions use. What is aimed at, with the small CNN:
proposals of affine and color together cost at most 25% of a pass, the forward pass is at least 70%
of a step with detectors that read logits, and the search itself less than 2%; images are varied at
least ten times as fast as one at a time. Measured: 8% of a pass, and 16 to 27 times as fast as one
at a time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

import oodometer.builtin  # noqa: F401 - importing registers the built-in detectors
from oodometer.lab.search import Energy, Variation, affine, color
from oodometer.lab.search.chains import Chains
from oodometer.lab.search.methods import metropolis
from oodometer.lab.training.networks import build_network
from oodometer.scoring import choices
from oodometer.searches.scorers import opened, scores_of

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


def one_by_one(made: Variation, images: Tensor, latent: Tensor) -> None:
    """Vary the images one at a time."""
    for row in range(len(images)):
        made.images(images[row : row + 1], latent[row : row + 1])


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
    both = 0.0
    for made in (affine(SHAPE), color(SHAPE)):
        latent = torch.rand(IMAGES, made.dimensions)
        batched = seconds(partial(made.images, images, latent))
        single = seconds(partial(one_by_one, made, images[:FEW], latent[:FEW]))
        loop = single * IMAGES / FEW
        both += batched
        print(
            f"  {made.name:7s} proposals {batched / one:6.1%} of a pass; "
            f"one image at a time {loop / batched:5.1f} times as long"
        )
    print(f"  both proposals {both / one:.1%} of a pass")
    train = torch.rand(500, *SHAPE), torch.arange(500) % 10
    shift, scale = torch.zeros(1), torch.ones(1)
    with opened(
        model, choices(["max_softmax", "energy"]), *train, shift, scale, None, "cpu", BATCH
    ) as (
        scorers,
        _,
    ):
        for detector, scorer in scorers.items():
            scoring = seconds(partial(scores_of, scorer, images, BATCH))
            energy = Energy(scorer, affine(SHAPE), images, batch_size=BATCH)
            chains = Chains.begin(energy, energy.variation, IMAGES, 0, at_random=True)
            whole = seconds(partial(metropolis().step, energy, chains))
            varied = seconds(partial(energy.variation.images, images, chains.latent))
            rest = whole - scoring - varied
            print(
                f"  {detector:12s} step {whole / one:5.2f} passes: forward {one / whole:5.1%}, "
                f"rest of scoring {(scoring - one) / whole:5.1%}, proposals {varied / whole:5.1%}, "
                f"search itself {rest / whole:5.1%}"
            )


if __name__ == "__main__":
    main()
