"""Train a network from its specification: the same specification gives the same weights."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.lab.data.divisions import check_split, gives_validation
from oodometer.lab.data.portions import split_portions
from oodometer.lab.data.samples import Samples
from oodometer.lab.training.batches import Feed, batch_sizes, make_augment, require_classes
from oodometer.lab.training.curves import MEASURES, VALIDATION, Curve, best_epoch
from oodometer.lab.training.finishing import InOrder, finish_model
from oodometer.lab.training.optimizers import make_optimizer, usual_rate
from oodometer.lab.training.outliers import Outliers, require_auxiliary
from oodometer.lab.training.parts import (
    optimizer_of_parts,
    optimizer_tensors,
    others_at_rest,
    restore_optimizer,
    set_rate,
)
from oodometer.lab.training.schedules import make_schedule, make_stopping
from oodometer.lab.training.task import CLASSIFIER, Batch, Measures, Task, Turn, checked_loss
from oodometer.study import TrainSpec

Arrays = dict[str, NDArray[Any]]

_ROWS_TO_VALIDATE = 512  # at a time; has no influence but on memory


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network, after which epoch, and the learning curve of its training."""

    model: nn.Module
    epoch: int
    curve: Curve

    @property
    def losses(self) -> tuple[float, ...]:
        """Mean training loss of each epoch."""
        return tuple(self.curve["train_loss"])


def check_spec(spec: TrainSpec, *, task: Task = CLASSIFIER, validated: bool = False) -> None:
    """Check all that can be checked of a training run without its data: names, settings, needs.

    `validated`: there are validation samples, whatever the specification says.
    """
    validated = validated or bool(spec.validation) or gives_validation(spec.split)
    task.check(spec)
    make_optimizer(spec.optimizer, [nn.Parameter(torch.zeros(1))], 1.0, spec.weight_decay)
    make_augment(spec.augment, classes=2)
    check_split(spec.split)
    if spec.label_noise != "none":
        from oodometer.lab.data.label_noise import parse_noise

        parse_noise(spec.label_noise)
    reads = {
        f"schedule '{spec.schedule}'": make_schedule(spec.schedule, spec.epochs).reads,
        f"stopping '{spec.stopping}'": make_stopping(spec.stopping).reads,
        "epoch 'best'": spec.best_by if spec.epoch == "best" else "",
    }
    for name, measure in reads.items():
        if measure == "validation_accuracy" and "accuracy" not in task.measures:
            raise UserError(
                f"{name[0].upper()}{name[1:]} goes by {measure}, which is not measured here: use "
                "validation_loss or train_loss."
            )
        if measure in VALIDATION and not validated:
            raise UserError(
                f"{name[0].upper()}{name[1:]} goes by {measure}, but validation is 0: set a share "
                "of the training set aside, such as validation: 0.1."
            )
    if isinstance(spec.epoch, int) and spec.epoch > spec.epochs:
        raise UserError(f"epoch is {spec.epoch}, but training has {spec.epochs} epochs.")


def train(
    spec: TrainSpec,
    samples: Samples,
    classes: int,
    *,
    task: Task = CLASSIFIER,
    validation: Samples | None = None,
    auxiliary: Samples | None = None,
    device: str | torch.device = "cpu",
) -> Trained:
    """Train from scratch and return the network after the epoch that the specification names."""
    training = Training(
        spec,
        samples,
        classes,
        task=task,
        validation=validation,
        auxiliary=auxiliary,
        device=device,
    )
    until = spec.epoch if isinstance(spec.epoch, int) else spec.epochs
    while training.epoch < until and not training.finished:
        training.run_epoch()
    if isinstance(spec.epoch, int) and training.epoch < spec.epoch:
        raise stopped_before(spec.epoch, training.epoch)
    model = task.fresh_network(spec, samples.shape, classes)
    weights = training.finished_weights(spec.checkpoint)
    model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    return Trained(model.eval(), training.used_epoch(spec.checkpoint), training.curve)


def stopped_before(wanted: int, reached: int) -> UserError:
    """Return the error of an epoch that training never reached."""
    return UserError(f"epoch is {wanted}, but training stopped early, after epoch {reached}.")


class Training:
    """A training at work, epoch by epoch; between epochs it can be kept as arrays and gone on with.

    All that the next epoch depends on is in these arrays, so that a training run which was
    interrupted ends with the same bytes as one which was not. Nothing of it touches the global
    random state.
    """

    def __init__(
        self,
        spec: TrainSpec,
        samples: Samples,
        classes: int,
        *,
        task: Task = CLASSIFIER,
        validation: Samples | None = None,
        auxiliary: Samples | None = None,
        checkpoints: Collection[int | str] = (),
        device: str | torch.device = "cpu",
    ) -> None:
        check_spec(spec, task=task, validated=validation is not None)
        self.spec, self.task = spec, task
        self._place = torch.device(device)
        part, aside = split_portions(spec, samples, classes)
        if not spec.validation:
            aside = validation  # what the split itself sets aside, if it does
        for samples_used in (part, aside) if task.labelled else ():
            if samples_used is not None:
                require_classes(samples_used, classes)
        self._train = Feed(part, self._place)
        self._validation = None if aside is None else Feed(aside, self._place)
        self._form = samples.shape, classes
        model = task.fresh_network(spec, *self._form).to(self._place)
        modules = list(model.modules())
        # Convolutions are 1.5 times as fast on a CPU if the channels of a pixel lie together.
        self._layout = (
            torch.channels_last
            if any(isinstance(module, nn.Conv2d) for module in modules)
            else torch.contiguous_format
        )
        self._model = model.to(memory_format=self._layout)  # type: ignore[call-overload]
        self._outliers = None
        if task.outliers_per_input:
            known = require_auxiliary(auxiliary, samples)
            self._outliers = Outliers(spec, task, Feed(known, self._place), self._layout)
        self._sizes = batch_sizes(spec, len(part), modules)
        self._base_rate = spec.learning_rate or usual_rate(spec.optimizer)
        self._optimizer = optimizer_of_parts(spec, task, self._model, self._base_rate)
        self._augment = make_augment(spec.augment, classes)
        self._schedule = make_schedule(spec.schedule, spec.epochs)
        self._stopping = make_stopping(spec.stopping)
        self._order = torch.Generator().manual_seed(spec.seed)
        seed = np.random.SeedSequence([spec.seed, 1]).generate_state(1, np.uint64)[0]
        self._chance = torch.Generator().manual_seed(int(seed))  # of the augmentation
        self._dropout = torch.Generator().manual_seed(spec.seed).get_state()
        self._measures = ("loss", *task.measures)
        parts = ("train",) if aside is None else ("train", "validation")
        measured = [f"{part}_{measure}" for part in parts for measure in self._measures]
        self._curve: dict[str, list[float]] = {name: [] for name in (*measured, "learning_rate")}
        # Weights of the best epoch so far, by each measure that somebody will ask for.
        self._best: dict[str, Arrays] = {
            measure: {} for measure in MEASURES if measure in {*checkpoints, spec.checkpoint}
        }

    @property
    def epoch(self) -> int:
        """How many epochs have been trained."""
        return len(self._curve["train_loss"])

    @property
    def finished(self) -> bool:
        """Whether all epochs have been trained, or the rule for stopping applies."""
        return self.epoch >= self.spec.epochs or self._stopping.done(self._curve)

    @property
    def curve(self) -> Curve:
        """What was measured after each epoch so far."""
        return {name: tuple(values) for name, values in self._curve.items()}

    def used_epoch(self, checkpoint: int | str) -> int:
        """The number of the epoch that a checkpoint means: "last", best by a measure, a number."""
        if isinstance(checkpoint, int):
            return checkpoint
        return self.epoch if checkpoint == "last" else best_epoch(self._curve, checkpoint)

    def weights(self, checkpoint: int | str = "last") -> Arrays:
        """The network's parameters and buffers now, or after the best epoch by a measure."""
        if checkpoint in MEASURES:
            return dict(self._best[str(checkpoint)])
        assert checkpoint in ("last", self.epoch), "weights of the past are not kept"
        return {name: _array(value) for name, value in self._model.state_dict().items()}

    def finished_weights(self, checkpoint: int | str = "last") -> Arrays:
        """The weights, with all that the task fits to the training data when training is over."""
        weights = self.weights(checkpoint)
        if self.task.finish is None:
            return weights
        model = self.task.fresh_network(self.spec, *self._form).to(self._place)
        model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
        model = model.to(memory_format=self._layout)  # type: ignore[call-overload]
        with _one_thread():
            finish_model(
                self.spec, self.task, model, InOrder(self._train, self._layout, self.epoch)
            )
        return {name: _array(value) for name, value in model.state_dict().items()}

    def run_epoch(self) -> None:
        """Train one more epoch and measure."""
        steps = len(self._sizes)
        rates = self._schedule.rates(self._base_rate, steps, self.spec.epochs, self._curve)
        shuffled = torch.randperm(sum(self._sizes), generator=self._order)
        sums = dict.fromkeys(self._measures, 0.0)
        with self._own_randomness(), _one_thread():
            chosen: Sequence[Tensor | None] = [None] * steps
            if self._outliers is not None:
                chosen = self._outliers.rows_of(self._model, self.epoch, self._sizes)
            self._model.train()
            for step, rows in enumerate(torch.split(shuffled, self._sizes)):
                batch = self._batch(rows, chosen[step], step)
                _add(sums, self._step(rates[step], batch))
        for name, parameter in self._model.named_parameters():
            if not parameter.isfinite().all():
                raise self._diverged(f"the weights '{name}' are not finite", rates[-1])
        for measure, total in sums.items():
            self._curve[f"train_{measure}"].append(total / len(shuffled))
        self._curve["learning_rate"].append(rates[0])
        if self._validation is not None:
            for measure, total in self._validate(self._validation).items():
                mean = total / self._validation.size
                if not math.isfinite(mean):
                    what = f"the validation {measure} is {mean}"
                    raise self._diverged(what, rates[-1], self.epoch)
                self._curve[f"validation_{measure}"].append(mean)
        for measure in self._best:
            if self.used_epoch(measure) == self.epoch:
                self._best[measure] = self.weights()

    def _batch(self, rows: Tensor, chosen: Tensor | None, step: int) -> Batch:
        inputs, targets = self._train.batch(rows, self._layout, self._augment, self._chance)
        outliers = None
        if self._outliers is not None and chosen is not None:
            outliers = self._outliers.augmented(chosen, self._augment, self._chance)
        steps = len(self._sizes)
        past = self.epoch * steps + step
        return Batch(inputs, targets, outliers, self.epoch + step / steps, past)

    def _step(self, rate: float, batch: Batch) -> dict[str, float]:
        """Learn from one batch; return its loss and measures, added up over its samples."""
        sums = dict.fromkeys(self._measures, 0.0)
        set_rate(self._optimizer, rate)
        for turn in self.task.turns:
            if batch.step % turn.every == 0:
                with others_at_rest(self._model, turn.part):
                    _add(sums, self._turn(turn, rate, batch))
        if self.task.after_step is not None:
            self.task.after_step(self.spec, self._model, batch)
        return sums

    def _turn(self, turn: Turn, rate: float, batch: Batch) -> dict[str, float]:
        self._optimizer.zero_grad()
        if self.spec.adversarial:
            batch.inputs.requires_grad_()
        loss, measures = checked_loss(turn, self.spec, self._model, batch)
        if self.spec.adversarial:
            attacked = replace(batch, inputs=self._attacked(batch.inputs, loss))
            loss = loss + checked_loss(turn, self.spec, self._model, attacked)[0]
        value = loss.item()
        if not math.isfinite(value):
            raise self._diverged(f"the loss is {value}", rate)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.spec.gradient_norm:
            nn.utils.clip_grad_norm_(self._model.parameters(), self.spec.gradient_norm)
        self._optimizer.step()
        return {"loss": value * len(batch.inputs), **measures}

    def _attacked(self, inputs: Tensor, loss: Tensor) -> Tensor:
        """Move every pixel by a fixed step towards a larger loss, but not out of [0, 1].

        Adversarial training of deep ensembles, Lakshminarayanan et al. 2017, arXiv:1612.01474.
        """
        (gradient,) = torch.autograd.grad(loss, inputs, retain_graph=True)
        moved = inputs.detach() + self.spec.adversarial * gradient.sign()
        return moved.clamp(0, 1)

    def _validate(self, feed: Feed) -> dict[str, float]:
        """Loss and measures on the validation part, added up over its samples."""
        self._model.eval()
        sums = dict.fromkeys(self._measures, 0.0)
        with torch.no_grad(), _one_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.spec.seed)  # some losses draw: the same for every epoch
            for rows in torch.split(torch.arange(feed.size), _ROWS_TO_VALIDATE):
                known = self._outliers
                outliers = None if known is None else known.first(int(rows[0]), len(rows))
                batch = Batch(*feed.batch(rows, self._layout), outliers, float(self.epoch))
                for turn in self.task.turns:
                    loss, measures = checked_loss(turn, self.spec, self._model, batch)
                    _add(sums, {"loss": loss.item() * len(rows), **measures})
        return sums

    def _diverged(self, what: str, rate: float, epoch: int | None = None) -> UserError:
        return UserError(
            f"Training diverged: in epoch {epoch or self.epoch + 1}, {what}, with optimizer "
            f"{self.spec.optimizer} at learning rate {rate:g}; a smaller one may help."
        )

    @contextmanager
    def _own_randomness(self) -> Iterator[None]:
        """Lend the global random state to dropout, which knows no other; then give it back."""
        accelerated = self._place.type != "cpu"
        devices = [self._place] if accelerated else []
        kind = self._place.type if accelerated else "cuda"
        with torch.random.fork_rng(devices=devices, device_type=kind):
            if accelerated:  # its generator is seeded anew for every epoch: nothing to keep
                torch.manual_seed(self.spec.seed + self.epoch)
            torch.set_rng_state(self._dropout)
            yield
            self._dropout = torch.get_rng_state()

    def snapshot(self) -> Arrays:
        """All that the next epoch depends on, as arrays."""
        arrays = {f"weights/{name}": value for name, value in self.weights().items()}
        for measure, best in self._best.items():
            arrays |= {f"best/{measure}/{name}": value for name, value in best.items()}
        arrays |= {f"curve/{name}": np.array(values) for name, values in self._curve.items()}
        for name, value in optimizer_tensors(self._optimizer).items():
            arrays[f"optimizer/{name}"] = _array(value)
        generators = {"order": self._order.get_state(), "chance": self._chance.get_state()}
        generators["dropout"] = self._dropout
        return arrays | {f"random/{name}": _array(value) for name, value in generators.items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go to where a snapshot was taken, of a training run of the same specification, data and
        checkpoints.
        """  # noqa: D205
        tensors = {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}
        self._model.load_state_dict(_under("weights/", tensors))
        for measure in self._best:
            best = _under(f"best/{measure}/", tensors)
            self._best[measure] = {name: value.numpy() for name, value in best.items()}
        self._curve = {n: value.tolist() for n, value in _under("curve/", tensors).items()}
        restore_optimizer(self._optimizer, _under("optimizer/", tensors))
        random = _under("random/", tensors)
        self._order.set_state(random["order"])
        self._chance.set_state(random["chance"])
        self._dropout = random["dropout"]


def _add(sums: dict[str, float], values: Measures) -> None:
    for name, value in values.items():
        sums[name] += value


def _array(tensor: Tensor) -> NDArray[Any]:
    """Copy a tensor into an array of the usual layout."""
    copy = tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
    array: NDArray[Any] = copy.numpy()
    return array


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): value for n, value in tensors.items() if n.startswith(prefix)}


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute on one thread: more of them would add up in another order, to other bytes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
