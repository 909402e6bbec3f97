"""Compare a sample with the typical features of every class, and with those of noise."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import conv2d, normalize, pad

from oodometer.errors import UserError
from oodometer.lab.asking.probes._card import probe
from oodometer.lab.asking.probes._question import Question, State, precise
from oodometer.outputs import Outputs

_SEED = 2312  # of the noise: the same for every model
_DRAWN, _USED = 100, 10  # inputs of noise, and those of them that the prototype is made of


class Prototypes:
    """Learns the mean feature of every class, and of noise that the network is least sure of.

    Noise is uniform in [0, 1]; images are blurred. Of 100 inputs, the 10 with the lowest
    log-sum-exp of the logits count (OpenOOD's noise for GROOD).
    """

    def __init__(self) -> None:
        self._noise: Tensor | None = None

    def see(self, question: Question) -> None:
        """Ask about noise, when the first batch shows what inputs look like."""
        inputs = question.inputs
        if self._noise is not None:
            return
        if not isinstance(inputs, Tensor) or not inputs.is_floating_point():
            raise UserError(
                "Probe 'grood' asks about noise, but the inputs of data set "
                f"'{question.dataset}' are not one tensor of floats."
            )
        generator = torch.Generator().manual_seed(_SEED)
        drawn = torch.rand((_DRAWN, *inputs.shape[1:]), generator=generator)
        if drawn.ndim == 4:
            drawn = _blurred(drawn, 0.2 + 4.8 * float(torch.rand(1, generator=generator)))
        answer = question.again(drawn.to(inputs.detach()))
        unsure = (-precise(answer.logits).logsumexp(1)).topk(_USED).indices
        self._noise = precise(answer.features[unsure]).mean(0)

    def learned(self, train: Outputs) -> tuple[State, Tensor]:
        """Return the prototypes, the last one that of noise, and the training samples' values."""
        assert train.features is not None and train.labels is not None and self._noise is not None
        known = train.labels >= 0
        if not bool(known.any()):
            raise UserError(
                "Probe 'grood' needs training samples with a class, but all "
                f"{len(train)} labels are -1 (no known class)."
            )
        rows = precise(train.features[known])
        _, group, sizes = torch.unique(train.labels[known], return_inverse=True, return_counts=True)
        sums = rows.new_zeros((len(sizes), rows.shape[1])).index_add_(0, group, rows)
        means = torch.cat([sums / sizes[:, None], self._noise[None].to(rows.device)])
        state = {"prototypes": means}
        return state, torch.cat([_pull(part, state) for part in torch.split(train.features, 4096)])


@probe(learner=Prototypes, needs_head=True, of_training=True)
def grood(question: Question, state: State) -> Tensor:
    """(n, width): gradient of a nearest-prototype loss by the prototype of noise.

    The loss is the cross entropy of -||x - p_c|| over the mean features p_c of the classes and of
    noise, p_0; its gradient by p_0 is s_0 (x - p_0) / ||x - p_0||, s the softmax, whatever the
    class (ElAraby et al. 2025, arXiv:2312.14427). One forward pass over 100 inputs in all.
    """
    return _pull(question.answer.features, state)


def _pull(features: Tensor, state: State) -> Tensor:
    rows = precise(features)
    prototypes = state["prototypes"].to(rows.device)
    mode = "donot_use_mm_for_euclid_dist"  # which loses digits where a sample is its prototype
    share = (-torch.cdist(rows, prototypes, compute_mode=mode)).softmax(1)[:, -1:]
    return share * normalize(rows - prototypes[-1])


def _blurred(images: Tensor, sigma: float) -> Tensor:
    """Images behind a Gaussian of 7 x 5 pixels; their edges are repeated."""
    channels = images.shape[1]
    for size, across in ((7, False), (5, True)):
        places = torch.arange(size) - size // 2
        weights = torch.exp(-places.square() / (2 * sigma**2))
        weights = weights / weights.sum()
        kernel = weights.reshape((1, 1, 1, -1) if across else (1, 1, -1, 1))
        edge = (size // 2,) * 2
        images = pad(images, (*edge, 0, 0) if across else (0, 0, *edge), mode="replicate")
        images = conv2d(images, kernel.repeat(channels, 1, 1, 1), groups=channels)
    return images
