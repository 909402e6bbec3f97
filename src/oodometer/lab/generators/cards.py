"""Networks that make images of latent points: one card each, by which it is trained and used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from oodometer.calls import parse_call
from oodometer.errors import unknown
from oodometer.lab.options import choose, require
from oodometer.lab.training.task import Task
from oodometer.study import TrainSpec

Space = Literal["box", "sphere"]
Recipe = Callable[[TrainSpec, tuple[int, ...]], TrainSpec]  # (size, seed ...; shape of the images)


@dataclass(frozen=True)
class Drawing:
    """How images are made of points.

    With `truncation` below 1, the first `cutoff` styles (None: all) are drawn to their mean: less
    variety, better images. `random_noise` draws the noise anew for each image, as published; the
    same point then has another image each time.
    """

    truncation: float = 1.0
    cutoff: int | None = None
    random_noise: bool = False

    def __post_init__(self) -> None:
        require(0 <= self.truncation <= 1, "truncation", self.truncation, "from 0 to 1")
        whole = self.cutoff is None or (type(self.cutoff) is int and self.cutoff >= 0)
        require(whole, "cutoff", self.cutoff, "a whole number from 0")


@dataclass(frozen=True, eq=False)
class GeneratorCard:
    """The card of a generator: what it learns, and how it makes images of points."""

    name: str
    task: Task
    recipe: Recipe  # of its training, from the shape (n, channels, height, width) of the images
    part: str  # the submodule that makes images; all that a file has to keep
    space: Space
    dimensions: Callable[[nn.Module], int]  # of that part
    images: Callable[[nn.Module, Tensor, Drawing], Tensor]  # (that part, points) -> in [0, 1]


GENERATORS: dict[str, GeneratorCard] = {}


def draws(text: str) -> tuple[GeneratorCard, Drawing] | None:
    """The generator that a text such as ``stylegan2(truncation=0.5)`` names, and how it draws.

    None if the text names none.
    """
    name, _ = parse_call("variation", text)
    if name not in GENERATORS:
        return None
    return GENERATORS[name], choose("variation", text, {name: drawing})()


def drawing(
    *, truncation: float = 1.0, cutoff: int | None = None, random_noise: bool = False
) -> Drawing:
    """How images are made of points, by its settings."""
    return Drawing(truncation, cutoff, random_noise)


def find_generator(name: str) -> GeneratorCard:
    """Look a generator up."""
    if name not in GENERATORS:
        raise unknown("generator", name, GENERATORS)
    return GENERATORS[name]
