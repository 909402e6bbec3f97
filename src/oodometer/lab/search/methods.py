"""Methods of search: each moves all chains by one step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from oodometer.errors import unknown
from oodometer.lab.options import require
from oodometer.lab.search.chains import Bounds, Chains, draw, inside
from oodometer.lab.search.energy import Energy

Step = Callable[[Energy, Chains], None]


@dataclass(frozen=True)
class Method:
    """One step of all chains, and how many images it scores for each."""

    step: Step
    cost: int = 1


def metropolis(
    *, proposal: float = 0.1, temperature: float = 1.0, bounds: str = "reflect"
) -> Method:
    """Metropolis-Hastings: chains visit z in proportion to exp(-E(z) / T).

    z' = z + proposal · N(0, I) is accepted with probability min(1, exp((E(z) - E(z')) / T)).
    ``bounds=clamp`` is the published treatment of the box, with which that holds no longer exactly.
    """
    require(proposal > 0, "The proposal of metropolis", proposal, "above 0")
    require(temperature > 0, "The temperature of metropolis", temperature, "above 0")
    edges = _bounds(bounds)

    def step(energy: Energy, chains: Chains) -> None:
        latent = _proposed(chains, chains.latent, proposal, edges)
        energies = energy.of(latent)
        chains.visit(latent, energies)
        chains.move(latent, energies, _accepted(chains, chains.energy, energies, temperature))

    return Method(step)


def random_search() -> Method:
    """Every step draws a new point; the chain moves where that is lower."""

    def step(energy: Energy, chains: Chains) -> None:
        latent = draw(chains.variation, len(chains.latent), chains.random)
        energies = energy.of(latent)
        chains.visit(latent, energies)
        chains.move(latent, energies, energies < chains.energy)

    return Method(step)


def coordinate_descent(*, width: float = 0.25) -> Method:
    """One coordinate after the other, up and down by a width that halves when nothing is lower."""
    require(0 < width <= 1, "The width of coordinate_descent", width, "from above 0 to 1")

    def step(energy: Energy, chains: Chains) -> None:
        own, count = chains.own, len(chains.latent)
        if not own:
            own["width"] = torch.full((count,), width)
            own["improved"] = torch.zeros(count, dtype=torch.bool)
        place = chains.steps % chains.variation.dimensions
        tried = chains.latent.repeat(2, 1)
        tried[:, place] += torch.cat([own["width"], -own["width"]])
        tried = inside(chains.variation, tried, "clamp")
        energies = energy.of(tried)
        chains.visit(tried, energies)
        up, down = torch.split(energies, count)
        better, latent = torch.minimum(up, down), tried.view(2, count, -1)
        lower = better < chains.energy
        chains.move(torch.where((up <= down)[:, None], latent[0], latent[1]), better, lower)
        own["improved"] = own["improved"] | lower
        if place == chains.variation.dimensions - 1:
            own["width"] = torch.where(own["improved"], own["width"], own["width"] / 2)
            own["improved"] = torch.zeros(count, dtype=torch.bool)

    return Method(step, cost=2)


def zeroth_order(
    *, size: float = 0.1, probe: float = 0.005, momentum: float = 0.999, halve: int = 2000
) -> Method:
    """The published black-box attack: slopes along random directions, with momentum.

    With e = probe · N(0, I): v <- size · e · (E(x + e) - E(x)) / probe + momentum · v and
    x <- x - v, cut to the box; `size` and `probe` are lengths in pixels and halve every `halve`
    steps.
    """
    require(size > 0, "The size of zeroth_order", size, "above 0")
    require(probe > 0, "The probe of zeroth_order", probe, "above 0")
    require(0 <= momentum < 1, "The momentum of zeroth_order", momentum, "from 0 to less than 1")
    require(halve >= 1, "halve of zeroth_order", halve, "at least 1")

    def step(energy: Energy, chains: Chains) -> None:
        own, factor = chains.own, 0.5 ** (chains.steps // halve) / chains.variation.scale
        if not own:
            own["velocity"] = torch.zeros_like(chains.latent)
        direction = torch.randn(chains.latent.shape, generator=chains.random)
        tried = inside(chains.variation, chains.latent + probe * factor * direction, "clamp")
        energies = energy.of(tried)
        chains.visit(tried, energies)
        rise = (energies - chains.energy).nan_to_num(0.0, 0.0, 0.0).to(direction)
        own["velocity"] = size * factor * direction * rise[:, None] + momentum * own["velocity"]
        latent = inside(chains.variation, chains.latent - own["velocity"], "clamp")
        energies = energy.of(latent)
        chains.visit(latent, energies)
        chains.move(latent, energies, energies.isfinite())

    return Method(step, cost=2)


def tempering(
    *,
    proposal: float = 0.1,
    temperature: float = 1.0,
    replicas: int = 4,
    ratio: float = 3.0,
    bounds: str = "reflect",
) -> Method:
    """Parallel tempering: Metropolis chains at temperatures T · ratio^k that exchange their places.

    Neighbours i and j exchange with probability min(1, exp((1/T_i - 1/T_j) (E_i - E_j))).
    """
    require(proposal > 0, "The proposal of tempering", proposal, "above 0")
    require(temperature > 0, "The temperature of tempering", temperature, "above 0")
    require(replicas >= 2, "The replicas of tempering", replicas, "at least 2")
    require(ratio > 1, "The ratio of tempering", ratio, "above 1")
    edges = _bounds(bounds)
    temperatures = temperature * ratio ** torch.arange(replicas, dtype=torch.float64)

    def step(energy: Energy, chains: Chains) -> None:
        own, count = chains.own, len(chains.latent)
        if not own:
            own["latent"] = chains.latent.repeat(replicas, 1)
            own["energy"] = chains.energy.repeat(replicas)
        before = chains.latent
        latent = _proposed(chains, own["latent"], proposal, edges)
        energies = energy.of(latent)
        chains.visit(latent, energies)
        accepted = _accepted(chains, own["energy"], energies, temperatures.repeat_interleave(count))
        places = torch.where(accepted[:, None], latent, own["latent"]).view(replicas, count, -1)
        heights = torch.where(accepted, energies, own["energy"]).view(replicas, count)
        for low in range(chains.steps % 2, replicas - 1, 2):
            gap = (1 / temperatures[low] - 1 / temperatures[low + 1]).item()
            change = gap * (heights[low] - heights[low + 1]).nan_to_num(0.0)
            chance = torch.rand(count, generator=chains.random, dtype=torch.float64)
            swapped = chance < change.exp()
            pair, both = torch.tensor([low, low + 1]), torch.tensor([low + 1, low])
            places[pair] = torch.where(swapped[:, None], places[both], places[pair])
            heights[pair] = torch.where(swapped, heights[both], heights[pair])
        own["latent"], own["energy"] = places.reshape(replicas * count, -1), heights.reshape(-1)
        chains.move(places[0], heights[0], (places[0] != before).any(1))

    return Method(step, cost=replicas)


def langevin(*, size: float = 0.01, temperature: float = 1.0) -> Method:
    """Unadjusted Langevin dynamics, z <- z - size · gradient + sqrt(2 · size · T) · N(0, I).

    It needs gradients of the scores with respect to the images.
    """
    require(size > 0, "The size of langevin", size, "above 0")
    require(temperature >= 0, "The temperature of langevin", temperature, "at least 0")

    def step(energy: Energy, chains: Chains) -> None:
        _, gradient = energy.slope(chains.latent)
        noise = torch.randn(chains.latent.shape, generator=chains.random)
        moved = chains.latent - size * gradient + (2 * size * temperature) ** 0.5 * noise
        _follow(energy, chains, inside(chains.variation, moved))

    return Method(step, cost=2)


def gradient_descent(*, size: float = 0.05) -> Method:
    """Projected gradient descent with signs, z <- z - size · sign(gradient): PGD for linf.

    It needs gradients of the scores with respect to the images. On a sphere, the gradient is
    scaled to length 1 instead.
    """
    require(size > 0, "The size of gradient_descent", size, "above 0")

    def step(energy: Energy, chains: Chains) -> None:
        _, gradient = energy.slope(chains.latent)
        sphere = chains.variation.space == "sphere"
        way = torch.nn.functional.normalize(gradient, dim=1) if sphere else gradient.sign()
        _follow(energy, chains, inside(chains.variation, chains.latent - size * way, "clamp"))

    return Method(step, cost=2)


METHODS: dict[str, Callable[..., Method]] = {
    made.__name__: made
    for made in (
        metropolis,
        random_search,
        coordinate_descent,
        zeroth_order,
        tempering,
        langevin,
        gradient_descent,
    )
}


def _bounds(text: str) -> Bounds:
    if text == "reflect":
        return "reflect"
    if text == "clamp":
        return "clamp"
    raise unknown("value of bounds", text, ["reflect", "clamp"])


def _proposed(chains: Chains, latent: Tensor, proposal: float, bounds: Bounds) -> Tensor:
    noise = torch.randn(latent.shape, generator=chains.random)
    return inside(chains.variation, latent + proposal * noise, bounds)


def _accepted(chains: Chains, before: Tensor, after: Tensor, temperature: float | Tensor) -> Tensor:
    """Metropolis' rule. A point without a finite energy is left at once, and never entered."""
    chance = torch.rand(len(after), generator=chains.random, dtype=torch.float64)
    falls = ((before - after) / temperature).nan_to_num(-torch.inf, torch.inf, -torch.inf)
    return chance < falls.exp()


def _follow(energy: Energy, chains: Chains, latent: Tensor) -> None:
    """Go there, unless the energy is not finite."""
    energies = energy.of(latent)
    chains.visit(latent, energies)
    chains.move(latent, energies, energies.isfinite())
