"""Remake authors_code.json: what published code says of networks with the weights of ours.

Not a test and not run by the tests: it needs checkouts of three repositories.

    git clone https://github.com/pclucas14/pixel-cnn-pp /tmp/code/pixelcnn
    git clone https://github.com/j-cb/GOOD /tmp/code/good
    git clone https://github.com/y0ast/DUE /tmp/code/due
    python tests/oracles/make_authors_code.py /tmp/code

GOOD's is the code of its authors. Those of PixelCNN++ and SNGP are what the published detectors
were trained with: by OD-test, and by "Evaluating OOD detectors through adversarial generation of
outliers". Weights and images are those of tests/test_authors_code.py, in double precision.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

HERE = Path(__file__).parent
CODE = Path(sys.argv[1])
sys.path[:0] = [str(HERE.parent), *(str(CODE / name) for name in ("pixelcnn", "good", "due"))]
torch.set_default_dtype(torch.float64)
torch.Tensor.cuda = lambda self, *_, **__: self  # their losses ask for a GPU

import model as their_pixelcnn  # noqa: E402
import modules_ibp  # noqa: E402
import provable_classifiers  # noqa: E402
import test_authors_code as ours  # noqa: E402
import utils as their_losses  # noqa: E402
from due.sngp import Laplace  # noqa: E402


def fill(theirs: nn.Module, own: Any) -> None:
    """Give a layer with normalized weights the weights of one of ours."""
    weight, gain = own.weight, own.gain
    if isinstance(theirs, nn.Linear):
        weight, gain = weight[:, :, 0, 0], gain[:, :, 0, 0]
    if isinstance(theirs, nn.ConvTranspose2d):  # PyTorch normalizes by inputs there
        weight = weight * gain / torch.linalg.vector_norm(weight, dim=(0, 2, 3), keepdim=True)
        gain = torch.linalg.vector_norm(weight, dim=(1, 2, 3), keepdim=True)
    theirs.weight_v.copy_(weight)
    theirs.weight_g.copy_(gain)
    theirs.bias.copy_(own.bias)


def fill_blocks(theirs: Any, own: Any) -> None:
    """The same for gated blocks."""
    for block, of_ours in zip(theirs, own, strict=True):
        fill(block.conv_input.conv, of_ours.first)
        fill(block.conv_out.conv, of_ours.second)
        if of_ours.side is not None:
            fill(block.nin_skip.lin_a, of_ours.side)


def pixelcnn(channels: int) -> Tensor:
    """Bits per dimension of the images."""
    own, pixels = ours.pixelcnn(channels), ours.images(channels, 8)
    theirs = their_pixelcnn.PixelCNN(1, 4, 2, input_channels=channels).eval()
    fill(theirs.u_init.conv, own.above_start)
    fill(theirs.ul_init[0].conv, own.row_start)
    fill(theirs.ul_init[1].conv, own.column_start)
    fill(theirs.nin_out.lin_a, own.last)
    for kind, stream in (("u", own.above), ("ul", own.left)):
        for level in range(3):
            up, down = theirs.up_layers[level], theirs.down_layers[level]
            fill_blocks(getattr(up, f"{kind}_stream"), stream.up(level))
            fill_blocks(getattr(down, f"{kind}_stream"), stream.down(level))
        for number in range(2):
            fill(getattr(theirs, f"downsize_{kind}_stream")[number].conv, stream.reduce[number])
            fill(getattr(theirs, f"upsize_{kind}_stream")[number].deconv, stream.enlarge[number])
    loss = (
        their_losses.discretized_mix_logistic_loss_1d
        if channels == 1
        else their_losses.discretized_mix_logistic_loss
    )
    made = theirs(2 * pixels - 1)
    nats = [loss(2 * pixels[[row]] - 1, made[[row]]) for row in range(len(pixels))]
    return torch.stack(nats) / (pixels[0].numel() * math.log(2))


def good(channels: int) -> tuple[Tensor, Tensor]:
    """Bounds of all differences of logits, and of the logarithm of the confidence."""
    own, pixels = ours.good(channels), ours.images(channels, 8)
    layers: list[nn.Module] = []
    for layer in own:
        if isinstance(layer, nn.Conv2d):
            settings = {"stride": layer.stride, "padding": layer.padding}
            layers.append(modules_ibp.Conv2dI(layer.in_channels, layer.out_channels, 3, **settings))
        elif isinstance(layer, nn.Linear):
            layers.append(modules_ibp.LinearI(layer.in_features, layer.out_features))
        else:
            known = {nn.ReLU: modules_ibp.ReLUI, nn.Flatten: modules_ibp.FlattenI}
            layers.append(known[type(layer)]())
        layers[-1].load_state_dict(layer.state_dict())
    low, high = (pixels - ours.RADIUS).clamp(0, 1), (pixels + ours.RADIUS).clamp(0, 1)
    bounds = provable_classifiers.CNN_IBP.ibp_elision_forward(
        SimpleNamespace(layers=layers), low, high, own[-1].out_features
    )[2]
    # evaluation.py, ub_log_confs_from_ud_logits; importing it needs all that draws its figures.
    return bounds, (-(-bounds).logsumexp(-1)).amax(-1)


def sngp() -> tuple[Tensor, Tensor]:
    """Mean-field logits and variances."""
    own = ours.sngp()
    seen, asked = ours.vectors(own)
    count, width = own.features.weight.shape
    theirs = Laplace(
        nn.Identity(), width, width, True, count, own.head.out_features, len(seen), len(seen),
        feature_scale=2.0, mean_field_factor=own.mean_field,
    )  # fmt: skip
    theirs.jl = nn.Identity()
    theirs.rff.W.copy_(own.features.weight.T)
    theirs.rff.b.copy_(own.features.offset)
    theirs.beta.load_state_dict(own.head.state_dict())
    theirs.normalize.load_state_dict(own.normalize.state_dict())
    theirs.train()(seen)
    logits = theirs.eval()(asked)
    theirs.mean_field_factor = None
    return logits, theirs(asked)[1].diagonal()


def main() -> None:
    """Write the file."""
    numbers = {}
    with torch.no_grad():
        for channels in ours.CHANNELS:
            numbers[f"pixelcnn, {channels} channels, bits per dimension"] = pixelcnn(channels)
            bounds, confidence = good(channels)
            numbers[f"good, {channels} channels, bounds of differences"] = bounds
            numbers[f"good, {channels} channels, bound of log confidence"] = confidence
        numbers["sngp, mean-field logits"], numbers["sngp, variance"] = sngp()
    about = {
        "pixelcnn": "https://github.com/pclucas14/pixel-cnn-pp: model.py, utils.py, layers.py",
        "good": "https://github.com/j-cb/GOOD: provable_classifiers.py, modules_ibp.py (5b6b0c3)",
        "sngp": "https://github.com/y0ast/DUE: due/sngp.py (1c18e19)",
    }
    kept = {
        name: [float(f"{number:.10g}") for number in values.flatten().tolist()]
        for name, values in numbers.items()
    }
    text = json.dumps({"code": about, "numbers": kept}, indent=1)
    (HERE / "authors_code.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
