"""Compact convolutional transformer (Hassani et al. 2021, arXiv:2104.05704)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.lab.training.networks._parts import Tokens, init_kaiming, staged

_HEADS = 4
_LAYERS = 7
_ATTENTION_DROPOUT = 0.1
_STOCHASTIC_DEPTH = 0.1  # of the last layer; from 0 at the first it grows evenly


class Position(nn.Module):
    """Add a learned vector to each token."""

    def __init__(self, tokens: int, units: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.zeros(1, tokens, units))

    def forward(self, x: Tensor) -> Tensor:
        """Add."""
        return x + self.embedding


class StochasticDepth(nn.Module):
    """While training, drop the whole branch of a sample at random (Huang et al. 2016)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Drop, and scale what is kept so that the mean stays."""
        if not self.training or self.rate == 0:
            return x
        keep = 1 - self.rate
        kept = torch.empty(len(x), 1, 1, dtype=x.dtype, device=x.device).bernoulli_(keep)
        return x * kept / keep


class Attention(nn.Module):
    """Self-attention with several heads; no bias in queries, keys and values."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.split = nn.Linear(units, 3 * units, bias=False)
        self.dropout = nn.Dropout(_ATTENTION_DROPOUT)
        self.join = nn.Linear(units, units)

    def forward(self, x: Tensor) -> Tensor:
        """Let each token take from all tokens."""
        samples, tokens, units = x.shape
        parts = self.split(x).reshape(samples, tokens, 3, _HEADS, units // _HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        if self.dropout.training:
            # Written out, with dropout as a module: MC dropout searches for modules.
            weights = (query @ key.transpose(-2, -1) / (units // _HEADS) ** 0.5).softmax(-1)
            mixed = self.dropout(weights) @ value
        else:  # the same without a matrix of tokens x tokens in memory
            mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        out: Tensor = self.join(mixed.transpose(1, 2).reshape(samples, tokens, units))
        return out


class Layer(nn.Module):
    """One layer of the encoder. The second norm stands in the main path, as in the reference."""

    def __init__(self, units: int, depth_rate: float) -> None:
        super().__init__()
        self.attend = nn.Sequential(nn.LayerNorm(units), Attention(units))
        self.norm = nn.LayerNorm(units)
        self.feed = nn.Sequential(
            nn.Linear(units, 2 * units), nn.GELU(), nn.Linear(2 * units, units)
        )
        self.drop = StochasticDepth(depth_rate)

    def forward(self, x: Tensor) -> Tensor:
        """Attend, then transform each token."""
        x = self.norm(x + self.drop(self.attend(x)))
        fed: Tensor = self.drop(self.feed(x))
        return x + fed


class SequencePool(nn.Module):
    """A mean of tokens with learned weights: softmax over tokens of a linear score."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.score = nn.Linear(units, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Weigh and add."""
        weights = self.score(x).softmax(dim=1)
        pooled: Tensor = (weights.transpose(1, 2) @ x).squeeze(1)
        return pooled


def cct7(channels: int, height: int, width: int, classes: int, units: int) -> nn.Module:
    """Compact convolutional transformer with 7 layers; tokens of `width` units, a multiple of 4.

    CCT-7/3x1 for images below 64 pixels, CCT-7/3x2 below 128, CCT-7/7x2 above: one or two
    convolutions of 3 x 3 or 7 x 7, each followed by ReLU and max-pooling, make the tokens.
    Sequence pooling, learned positions, 4 heads, initial weights and dropout rates as in
    SHI-Labs/Compact-Transformers; sizes as in Humblot-Renaud et al. 2024, arXiv:2404.01775.
    """
    if units % _HEADS:
        raise UserError(f"The width of network 'cct7' must be a multiple of {_HEADS}, got {units}.")
    side = min(height, width)
    kernel, count = (3, 1) if side < 64 else (3, 2) if side < 128 else (7, 2)
    stride = max(1, kernel // 2 - 1)
    layers: list[nn.Module] = []
    inputs = channels
    for outputs in (*[max(1, units // 4)] * (count - 1), units):  # 64 before 256
        layers += [
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, padding=1),
        ]
        inputs = outputs
        for _ in range(1 + (stride == 2)):  # each stride of 2 halves the size and rounds up
            height, width = (height + 1) // 2, (width + 1) // 2
    position = Position(height * width, units)
    stages: dict[str, nn.Module] = {"stem": nn.Sequential(*layers, Tokens(), position)}
    for number in range(_LAYERS):
        rate = _STOCHASTIC_DEPTH * number / (_LAYERS - 1)
        stages[f"stage{number + 1}"] = Layer(units, rate)
    stages["last"] = nn.LayerNorm(units)
    network = staged(stages, SequencePool(units), nn.Linear(units, classes))
    init_kaiming(network, mode="fan_in")
    nn.init.trunc_normal_(position.embedding, std=0.2)
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return network
