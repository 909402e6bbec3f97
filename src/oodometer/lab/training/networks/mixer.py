"""MLP-Mixer (Tolstikhin et al. 2021, arXiv:2105.01601)."""

from __future__ import annotations

from torch import Tensor, nn

from oodometer.lab.training.networks._parts import Tokens, staged
from oodometer.lab.training.networks.resnet import LARGE


def _perceptron(size: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size, hidden), nn.GELU(), nn.Linear(hidden, size))


class MixerLayer(nn.Module):
    """Mix the tokens of each channel, then the channels of each token."""

    def __init__(self, tokens: int, units: int) -> None:
        super().__init__()
        self.token_norm, self.channel_norm = nn.LayerNorm(units), nn.LayerNorm(units)
        self.mix_tokens = _perceptron(tokens, 4 * tokens)
        self.mix_channels = _perceptron(units, max(1, units // 2))

    def forward(self, x: Tensor) -> Tensor:
        """Mix twice, each time added to what came in."""
        x = x + self.mix_tokens(self.token_norm(x).transpose(1, 2)).transpose(1, 2)
        mixed: Tensor = self.mix_channels(self.channel_norm(x))
        return x + mixed


class TokenMean(nn.Module):
    """The mean over tokens."""

    def forward(self, x: Tensor) -> Tensor:
        """Average."""
        return x.mean(dim=1)


def mlp_mixer(channels: int, height: int, width: int, classes: int, units: int) -> nn.Module:
    """MLP-Mixer; each patch becomes a token of `width` units.

    Patches of 4 x 4 and 6 layers for images up to 64 pixels, patches of 16 x 16 and 8 layers above
    (Humblot-Renaud et al. 2024, arXiv:2404.01775). Hidden layers have 4 x as many units as there
    are tokens and half as many as there are channels, and weights are PyTorch's own: so in
    kentaroy47/vision-transformers-cifar10, which that study used; the first paper has it reversed.
    Images that patches do not fill are padded with zeros at the right and at the bottom.
    """
    patch, depth = (16, 8) if min(height, width) > LARGE else (4, 6)
    rows, columns = -(-height // patch), -(-width // patch)
    embed: list[nn.Module] = []
    if (rows * patch, columns * patch) != (height, width):
        embed.append(nn.ZeroPad2d((0, columns * patch - width, 0, rows * patch - height)))
    embed += [nn.Conv2d(channels, units, patch, patch), Tokens()]
    stages: dict[str, nn.Module] = {"stem": nn.Sequential(*embed)}
    for number in range(1, depth + 1):
        stages[f"stage{number}"] = MixerLayer(rows * columns, units)
    stages["last"] = nn.LayerNorm(units)
    return staged(stages, TokenMean(), nn.Linear(units, classes))
