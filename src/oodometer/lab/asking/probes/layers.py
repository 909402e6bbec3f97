"""Ask every stage of a network: its correlations, its gradients, its rest without the main one."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.lab.asking.forward import answering
from oodometer.lab.asking.probes._card import probe
from oodometer.lab.asking.probes._question import Question, State, precise
from oodometer.lab.asking.replay import replaced
from oodometer.lab.asking.stages import as_matrix, first_tensor, with_first
from oodometer.outputs import Outputs, softmax_kind

POWERS = tuple(range(1, 11))
_ROWS = 16  # at a time, so that ten powers of a map stay in the processor's cache


def gram_rows(matrix: Tensor) -> Tensor:
    """(n, powers, channels): signed p-th root of the row sums of the p-th order Gram matrix.

    The matrix is (n, channels, positions). Row i of F^p (F^p)' sums to the product of F_i^p with
    the sum of all F_j^p, so the matrix of channels x channels is never made. Maps are divided by
    their largest value first: the twentieth power of 100 overflows float32.
    """
    parts = []
    for part in torch.split(matrix, _ROWS):
        largest = part.abs().amax(dim=(1, 2), keepdim=True).clamp_min(torch.finfo(part.dtype).tiny)
        own = part.abs().amax(dim=2, keepdim=True).clamp_min(torch.finfo(part.dtype).tiny)
        whole, rows = part / largest, part / own
        power_whole, power_rows, sums = whole, rows, []
        for power in POWERS:
            if power > 1:
                power_whole, power_rows = power_whole * whole, power_rows * rows
            total = torch.bmm(power_rows, power_whole.sum(1)[:, :, None])[:, :, 0]
            sums.append(total.sign() * total.abs() ** (1 / power))
        parts.append(torch.stack(sums, dim=1) * own.mT * largest)
    return torch.cat(parts)


class ClassRanges:
    """Learns the two smallest and the two largest Gram row sums of every class, in one pass.

    With the second ones, what a training sample would have got had it not been there is known
    too: only a sample that is an extreme itself lies outside the range of the others.
    """

    def __init__(self) -> None:
        self._ends: dict[str, dict[int, tuple[Tensor, Tensor]]] = {}  # stage -> class -> ends
        self._labelled: dict[str, dict[int, Tensor]] = {}

    def see(self, question: Question) -> None:
        """Compare a batch with what was seen before."""
        guess = question.answer.logits.argmax(1).cpu()
        labels = torch.full_like(guess, -1)
        if question.labels is not None:
            labels = question.labels.cpu().reshape(len(guess), -1)[:, 0]
        places = torch.arange(len(guess)) + question.place
        for stage, matrix in question.subject.matrices(question.answer).items():
            rows = gram_rows(matrix).cpu()
            ends = self._ends.setdefault(stage, {})
            for group in sorted(set(guess.tolist())):
                here = guess == group
                ends[group] = _two_ends(rows[here], places[here], ends.get(group))
            known = self._labelled.setdefault(stage, {})
            for group in sorted(set(labels.tolist())):
                own = rows[labels == group]
                pair = torch.stack([own.amin(0), own.amax(0)])
                if group in known:
                    pair = torch.stack(
                        [
                            torch.minimum(pair[0], known[group][0]),
                            torch.maximum(pair[1], known[group][1]),
                        ]
                    )
                known[group] = pair

    def learned(self, train: Outputs) -> tuple[State, Tensor]:
        """Return the ranges, and the deviations of the training samples with each left out."""
        assert train.logits is not None
        classes = train.logits.shape[1]
        left_out = torch.zeros(len(train), len(self._ends), len(POWERS), dtype=torch.float64)
        state: State = {}
        for number, (stage, ends) in enumerate(self._ends.items()):
            everything = torch.stack([values[[0, 3]] for values, _ in ends.values()])
            whole = torch.stack([everything[:, 0].amin(0), everything[:, 1].amax(0)])
            pairs = []
            for group in range(classes):
                if group in ends:
                    values, places = ends[group]
                    pairs.append(values[[0, 3]])
                    _add_left_out(left_out[:, number], precise(values), places)
                else:
                    pairs.append(self._labelled[stage].get(group, whole))
            low, high = torch.stack(pairs, dim=1)
            state |= {f"{stage}/low": precise(low), f"{stage}/high": precise(high)}
        return state, left_out


@probe(wants={"stages"}, learner=ClassRanges, of_training=True)
def gram(question: Question, state: State) -> Tensor:
    """(n, stages, powers): how far Gram row sums lie outside the range of the predicted class.

    sum over channels of max(low - g, 0) / |low + 1e-6| + max(g - high, 0) / |high + 1e-6|
    (Sastry and Oore 2020, arXiv:1912.12510), low and high the extremes over the training samples
    that are predicted as the class. A class that is never predicted has those of the samples
    labelled so, one without these those of all.
    """
    group = question.answer.logits.argmax(1)
    found = []
    for stage, matrix in question.subject.matrices(question.answer).items():
        rows = precise(gram_rows(matrix))
        low, high = (state[f"{stage}/{side}"].to(rows.device)[group] for side in ("low", "high"))
        found.append(_outside(low, high, rows).sum(2))
    return torch.stack(found, dim=1)


def _outside(low: Tensor, high: Tensor, rows: Tensor) -> Tensor:
    below = (low - rows).relu() / (low + 1e-6).abs()
    return below + (rows - high).relu() / (high + 1e-6).abs()


def _two_ends(
    rows: Tensor, places: Tensor, known: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor]:
    """Smallest, second, second largest and largest of each column, and the rows that they are of.

    Of a single row, all four are its own.
    """
    where = places[:, None, None].expand(rows.shape)
    if known is not None:
        rows, where = torch.cat([known[0], rows]), torch.cat([known[1], where])
    order = rows.argsort(dim=0)
    rows, where = rows.gather(0, order), where.gather(0, order)
    values, origins = [], []
    for value, origin in ((rows, where), (rows.flip(0), where.flip(0))):
        # A row may have been kept as both ends; the second must be another one.
        other = (origin != origin[:1]).to(torch.int8).argmax(0, keepdim=True)  # 0 if there is none
        values += [value[:1], value.gather(0, other)]
        origins += [origin[:1], origin.gather(0, other)]
    order_of_ends = [0, 1, 3, 2]
    return torch.cat(values)[order_of_ends], torch.cat(origins)[order_of_ends]


def _add_left_out(total: Tensor, values: Tensor, places: Tensor) -> None:
    """Add to (n, powers) what the extremes lie outside the range of all other samples."""
    smallest, second, second_largest, largest = values
    for gap, place in (
        ((second - smallest) / (second + 1e-6).abs(), places[0]),
        ((largest - second_largest) / (second_largest + 1e-6).abs(), places[3]),
    ):
        for power in range(len(POWERS)):
            total[:, power].index_add_(0, place[power], gap[power])


@probe(wants={"graph", "stages"}, of_training=True)
def nac(question: Question, state: State) -> Tensor:
    """(n, neurons): activation times gradient of every channel of every stage, in their order.

    Mean over positions of z * dL/dz, L = KL(uniform || softmax): what the neuron adds to the
    network's being sure (Liu et al. 2024, arXiv:2306.02879). One backward pass.
    """
    answer = question.graph
    assert answer is not None
    with torch.enable_grad():
        loss = -answer.logits.log_softmax(1).mean(1).sum()
        slopes = torch.autograd.grad(
            loss,
            list(answer.stages.values()),
            retain_graph=True,
            materialize_grads=True,  # 0 for a part that the logits do not depend on
        )
    parts = [
        as_matrix(output.detach() * slope, question.subject.stages[stage]).mean(2)
        for (stage, output), slope in zip(answer.stages.items(), slopes, strict=True)
    ]
    return torch.cat(parts, dim=1)


@probe(wants={"stages"})
def rankfeat(question: Question, state: State) -> Tensor:
    """(n, stages, classes): the logits when a stage lacks its leading singular direction.

    F - s u v', s the largest singular value of the map F as channels x positions and u, v its
    vectors (Song et al. 2022, arXiv:2209.08590), of the last stage that gives a map and of the one
    before it. The vectors are exact; the published code takes 20 power iterations from a random
    start. One forward pass per stage; of a chain of modules, only what lies behind the stage.
    """
    subject = question.subject
    if kind := softmax_kind(question.answer.logits):
        raise UserError(f"Probe 'rankfeat' needs logits, but the model gives {kind}.")
    maps = [
        stage
        for stage, matrix in subject.matrices(question.answer).items()
        if min(matrix.shape[1:]) > 1
    ]
    if not maps:
        raise UserError(
            f"Probe 'rankfeat' needs a layer that gives a map; those of "
            f"{type(subject.model).__name__} give vectors."
        )
    found = []
    for stage in maps[-1:-3:-1]:

        def remove(output: object) -> object:
            tensor = first_tensor(output)
            assert tensor is not None
            # A matrix and its transpose have the same leading part: tokens stay as they are.
            matrix = tensor.flatten(2)
            return with_first(output, without_leading(matrix).reshape(tensor.shape))

        behind = _behind(question, stage)
        if behind is None:
            with answering(subject.stages[stage], remove):
                found.append(question.again(question.inputs).logits)
        else:  # what lies before the stage has been computed: continue from its output
            changed = remove(question.answer.stages[stage])
            with replaced(subject.model, partial(_continue_with, behind, changed)):
                found.append(question.again(question.inputs).logits)
    return torch.stack(found, dim=1)


def _continue_with(behind: nn.Module, given: object, *inputs: object, **named: object) -> object:
    """Run the rest of a network on something else than its inputs would give."""
    return behind(given)


def _behind(question: Question, stage: str) -> nn.Sequential | None:
    """What a chain of modules runs after a stage; None without a chain, or if it runs twice."""
    model, own = question.subject.model, question.subject.stages[stage]
    if not isinstance(model, nn.Sequential) or "forward" in model.__dict__:
        return None
    modules = list(model)  # not `children`, which names a module that is used twice only once
    chained = type(model).forward is nn.Sequential.forward
    if not chained or not any(module is own for module in modules):
        return None
    behind = modules[next(n for n, module in enumerate(modules) if module is own) + 1 :]
    if not behind or any(module is own for part in behind for module in part.modules()):
        return None
    # A stage may hand on more than the one tensor that was kept, but PyTorch's layers take one.
    first = behind[0]
    while isinstance(first, nn.Sequential) and len(first):
        first = first[0]
    return nn.Sequential(*behind) if type(first).__module__.startswith("torch.nn.") else None


def without_leading(matrix: Tensor) -> Tensor:
    """Subtract the part of rank one that is nearest to each matrix, (n, rows, columns)."""
    exact = precise(matrix)
    wide = exact.shape[1] < exact.shape[2]
    if not wide:
        exact = exact.mT
    leading = _leading(exact @ exact.mT)  # of the shorter side
    rest = torch.baddbmm(exact, leading, leading.mT @ exact, alpha=-1)
    return (rest if wide else rest.mT).to(matrix)


def _leading(products: Tensor) -> Tensor:
    """Eigenvector of the largest eigenvalue of symmetric positive matrices, (n, size, 1).

    By the power method with the eighth power, and where that has not settled by then, because two
    eigenvalues are close, by solving for all of them.
    """
    trace = products.diagonal(dim1=1, dim2=2).sum(1)[:, None, None]
    scaled = products / torch.where(trace > 0, trace, 1.0)
    power = scaled @ scaled
    for _ in range(2):
        power = power @ power
    start = torch.linspace(1.0, 2.0, products.shape[1], dtype=products.dtype).square()
    vector = start.to(products.device).expand(len(products), -1)[:, :, None]
    for _ in range(6):
        vector = power @ vector
        length = torch.linalg.vector_norm(vector, dim=1, keepdim=True)
        vector = vector / torch.where(length > 0, length, 1.0)
    turned = scaled @ vector
    gap = torch.linalg.vector_norm(turned - (vector.mT @ turned) * vector, dim=1)[:, 0]
    unsettled = ~(gap <= 1e-12)
    if bool(unsettled.any()):
        vector[unsettled] = torch.linalg.eigh(products[unsettled])[1][:, :, -1:]
    return vector
