"""Ask the network with its dropout switched on, many times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from oodometer.errors import UserError
from oodometer.grids import DROPOUT_SAMPLES as SAMPLES
from oodometer.lab.asking.dropping import DropoutCalls, Kind
from oodometer.lab.asking.probes._card import probe
from oodometer.lab.asking.probes._question import Question, State
from oodometer.lab.asking.replay import Prefix, replaced
from oodometer.lab.asking.votes import summarize_votes
from oodometer.lab.data.inputs import size_of

_SEED = 20160  # of the thinned networks: the same ones for every batch, data set and model
_ALPHA = -1.7580993408473766  # what SELU tends to, where alpha dropout puts dropped units


def dropouts(model: nn.Module) -> list[_DropoutNd]:
    """The layers that drop something."""
    return [m for m in model.modules() if isinstance(m, _DropoutNd) and m.p > 0]


@probe(wants={"prefix"}, grid={"samples": SAMPLES})
def mc_dropout(question: Question, state: State) -> Tensor:
    """(n, numbers of samples, 4): how unsure and how much of two minds thinned networks are.

    Logarithms of the entropy of the mean softmax, of the mutual information between the class and
    the network, of one minus the largest mean probability, and of the mean variance of the
    probabilities, over the first 7, 15 and 30 networks. In each, dropout is on, be it a layer or
    a function that a forward method calls, and all the rest as in eval mode. One mask serves all
    samples: every thinned network answers all questions, so neither batches nor order matter, and
    differences between samples are not those of their masks. Only what lies behind the first
    dropout runs more than once. Attention weights that torch.nn.MultiheadAttention would drop are
    not dropped.
    """
    subject, prefix = question.subject, question.prefix
    layers, name = dropouts(subject.model), type(subject.model).__name__
    if prefix is not None and not _reliable(prefix, question, layers):
        prefix = None
    votes = []
    for number in range(max(SAMPLES)):
        with ExitStack() as stack:
            masks = _Masks(number, size_of(question.inputs))
            for layer in layers:
                stack.enter_context(_dropping(layer, masks))
            if prefix is not None:
                stack.enter_context(prefix.replaying())
            stack.enter_context(DropoutCalls(masks.dropped))
            votes.append(question.again(question.inputs).logits)
        if not masks.used:
            if layers:
                raise UserError(
                    f"Probe 'mc_dropout' found dropout layers in {name}, but none of them runs in "
                    "a forward pass."
                )
            raise UserError(
                "Probe 'mc_dropout' needs a network with dropout, nn.Dropout and its kind or the "
                f"functions of torch.nn.functional, at a rate above 0; {name} runs none."
            )
    logits = torch.stack(votes)
    return torch.stack([summarize_votes(logits[:count]) for count in SAMPLES], dim=1)


def _reliable(prefix: Prefix, question: Question, layers: list[_DropoutNd]) -> bool:
    """Tell whether a forward pass that begins at the first dropout is the true one.

    A layer that was not met runs only while it trains, and then perhaps before the others. Unless
    the network is a chain, one replay without dropout must give the logits that are known.
    """
    if not prefix.possible or prefix.met != set(layers):
        return False
    if prefix.certain:
        return True
    subject = question.subject
    if subject.replays is None:
        with prefix.replaying():
            again = question.again(question.inputs).logits
        truth = question.answer.logits
        scale = float(truth.abs().amax().clamp_min(1e-6))
        subject.replays = bool(((again - truth).abs() <= 1e-4 * scale).all())
    return subject.replays


class _Masks:
    """The masks of one thinned network, drawn in the order in which its layers run."""

    def __init__(self, number: int, rows: int) -> None:
        self._generator = torch.Generator().manual_seed(_SEED + number)
        self._rows = rows
        self.used = 0

    def dropped(self, x: Tensor, rate: float, kind: Kind) -> Tensor:
        """Drop units of x, the same ones of every sample."""
        self.used += 1
        shape = list(x.shape)
        samples = 1 if x.dim() > 1 and len(x) != self._rows and x.shape[1] == self._rows else 0
        shape[samples] = 1
        if kind.channels:
            shape[2:] = [1] * (x.dim() - 2)
        drawn = torch.rand(shape, generator=self._generator, dtype=torch.float64)
        if rate >= 1:
            return x * 0
        kept = (drawn >= rate).to(x)
        if not kind.alpha:
            return x * kept / (1 - rate)
        scale = ((1 - rate) * (1 + rate * _ALPHA**2)) ** -0.5
        return (torch.where(kept > 0, x, _ALPHA) - _ALPHA * rate) * float(scale)


@contextmanager
def _dropping(layer: _DropoutNd, masks: _Masks) -> Iterator[None]:
    """Let a layer drop by these masks, in training mode as far as anybody can see."""
    whole = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout)
    alpha = isinstance(layer, nn.AlphaDropout | nn.FeatureAlphaDropout)
    kind = Kind(channels=isinstance(layer, whole), alpha=alpha)
    mode, fast = layer.training, torch.backends.mha.get_fastpath_enabled()
    layer.training = True
    torch.backends.mha.set_fastpath_enabled(False)  # it passes the dropout layers by
    try:
        with replaced(layer, lambda x: masks.dropped(x, layer.p, kind)):
            yield
    finally:
        layer.training = mode
        torch.backends.mha.set_fastpath_enabled(fast)
