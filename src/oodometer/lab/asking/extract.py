"""Ask any classifier about any data: logits and features of the true forward pass, once each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from oodometer.errors import UserError, unknown
from oodometer.lab.asking.forward import asked
from oodometer.lab.asking.heads import scripted
from oodometer.lab.asking.layout import fast_layout
from oodometer.lab.asking.probes import PROBES, Learner, Probe, Question, State, dropouts
from oodometer.lab.asking.replay import Prefix
from oodometer.lab.asking.subject import StagesError, Subject
from oodometer.lab.data.inputs import (
    Batch,
    Data,
    batches_of,
    join_labels,
    moved,
    positional_names,
    size_of,
)
from oodometer.outputs import OF_OTHER_NETWORKS, PROBE, Head, Outputs
from oodometer.outputs.labels import labels_of_outliers

ENSEMBLE = PROBE + "ensemble"
_OF_FEATURES = ("mahalanobis", "gradient_uncertainty")  # probes that need a head
_ANY_LAYOUT = {"rankfeat"}  # probes that gain from the fast layout, too
_PARALLEL = (nn.DataParallel, nn.parallel.DistributedDataParallel)
ALWAYS = ("logits", "features", "labels", "head")  # what every extraction gives


def extract(
    model: nn.Module,
    datasets: Mapping[str, Data],
    *,
    needs: Literal["all"] | Iterable[str] = (),
    train: str = "train",
    layers: Sequence[str] | None = None,
    head: str | nn.Module | None = None,
    batch_size: int = 64,
    device: torch.device | str | None = None,
    lenient: bool = False,
) -> dict[str, Outputs]:
    """Return what the classifier says about each data set, in one pass over each.

    A data set is an array or tensor of inputs, a pair (inputs, labels), a map-style data set, or
    a DataLoader; several inputs are a mapping from names or ((first, second), labels). Samples
    without a label get -1, and beside a set called `train` so do those of others whose labels are
    not the classifier's. `head` is the last linear layer, or a convolution that amounts to one, or
    its name; it is found by itself where the model's output shows which one it is. The model runs
    in eval mode without gradients and is left exactly as it was. `device` is where the model runs
    meanwhile; by default where it is.

    `needs` asks for more than logits, features, labels and head: "layers", the mean output of
    every stage, and probes such as "probe:odin", for which the model is asked again;
    ``oodometer.needs_of(detectors)`` names what detectors read. "all" is all that this model and
    these data allow, but for what is named alone because of its cost ("probe:odin_fine"): what is
    left out, and why, stands in ``outputs.refused``; with `lenient` that goes for needs that are
    named, too, and for features and head of a model without a linear head. `train` is the training
    set, which some probes learn from. `layers` are names of modules, where the stages that are
    found by themselves are not those that you want.
    """
    if not isinstance(model, nn.Module):
        raise UserError(f"extract needs a torch.nn.Module, got {type(model).__name__}.")
    if not isinstance(datasets, Mapping) or not datasets:
        got = "an empty one" if isinstance(datasets, Mapping) else type(datasets).__name__
        raise UserError(
            "extract needs a mapping from names to data sets, such as {'train': train, 'test': "
            f"test}}; got {got}."
        )
    if not isinstance(batch_size, int) or batch_size < 1:
        raise UserError(f"batch_size must be a whole number of at least 1, got {batch_size!r}.")
    wish = _Wish.of(needs, train, datasets, lenient=lenient)
    while isinstance(model, _PARALLEL):  # its copies on other devices cannot be listened to
        model = model.module
        head = head.removeprefix("module.") if isinstance(head, str) else head
        if layers is not None and not isinstance(layers, str):
            layers = [name.removeprefix("module.") for name in layers]
    if isinstance(model, torch.jit.ScriptModule):
        raise scripted()
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        wish.ask_once_only(scripted())
    subject = Subject(model, head, layers, lenient=wish.lenient)
    outputs: dict[str, Outputs] = {}
    names = positional_names(model)
    with asked(model, device) as (place, dtype), ExitStack() as layout:
        unmade = any(map(is_lazy, model.parameters()))
        slow = wish.layers or wish.probes.keys() - _ANY_LAYOUT
        if place.type == "cpu" and not (slow or unmade):
            layout.enter_context(fast_layout(model))
        # The training set first: some probes learn from it.
        for name in sorted(datasets, key=lambda name: name != train):
            batches = (
                (moved(name, inputs, place, dtype), labels)
                for inputs, labels in batches_of(name, datasets[name], batch_size, names)
            )
            outputs[name] = _pass(subject, wish, name, batches, training=name == train)
    return {name: outputs[name] for name in datasets}


@contextmanager
def stem_relu_skipped(model: nn.Module) -> Iterator[None]:
    """Leave the ReLU behind the first layers out, as one published extractor did by mistake.

    It chained a network's child modules, and where that ReLU was called as a function, it was
    not among them: its features are of a network that was never trained.
    """
    relu = dict(model.named_modules()).get("stem.relu")
    if relu is None:
        raise UserError(
            "features 'skip_stem_relu' needs a network with a ReLU in its stem, such as resnet18; "
            f"{type(model).__name__} has none."
        )
    hook = relu.register_forward_hook(lambda _, inputs, output: inputs[0])
    try:
        yield
    finally:
        hook.remove()


class _Wish:
    """What is wanted beside the plain outputs, and what came in the way of it."""

    def __init__(self, layers: bool, probes: Iterable[str], *, lenient: bool) -> None:
        self.layers, self.lenient = layers, lenient
        self.probes = {name: PROBES[name] for name in probes}
        self.trained = False  # the training set is among the data sets
        self.states: dict[str, State] = {}
        self.refused: dict[str, str] = {}  # need -> why it cannot be had

    @classmethod
    def of(
        cls,
        needs: Literal["all"] | Iterable[str],
        train: str,
        datasets: Mapping[str, Data],
        *,
        lenient: bool,
    ) -> _Wish:
        """Read what the user asks for; unknown names are refused before anything runs."""
        if needs == "all":
            usual = [name for name, probe in PROBES.items() if not probe.only_by_name]
            wish = cls(layers=True, probes=usual, lenient=True)
        else:
            names = [needs] if isinstance(needs, str) else list(needs)
            known = [*ALWAYS, "layers", *(PROBE + name for name in PROBES)]
            for name in names:
                if name == ENSEMBLE:
                    raise UserError(
                        f"'{ENSEMBLE}' is made of the answers of several trainings, not of one "
                        "model: make it with oodometer.lab.asking.votes.summarize_votes."
                    )
                if name in OF_OTHER_NETWORKS:
                    raise UserError(
                        f"'{name}' is what networks say that are trained against the outliers, "
                        "not this model: a study trains them, see 'oodometer run'."
                    )
                if name not in known:
                    raise unknown("need", name, [*known, "all"])
            asked_for = [name.removeprefix(PROBE) for name in names if name.startswith(PROBE)]
            wish = cls("layers" in names, asked_for, lenient=lenient)
        wish.trained = train in datasets
        for name, probe in list(wish.probes.items()):
            if probe.learner is not None and train not in datasets:
                wish.refuse(
                    name,
                    UserError(
                        f"Probe '{name}' learns from the training set, but there is no data set "
                        f"'{train}' among {', '.join(datasets)}."
                    ),
                )
        return wish

    def refuse(self, probe: str, problem: UserError) -> None:
        """Go on without a probe, if everything was asked for; else say why it cannot be had."""
        if not self.lenient:
            raise problem
        self.refused[PROBE + probe] = str(problem)
        del self.probes[probe]

    def go_without_head(self, problem: UserError) -> None:
        """Go on with logits alone, and with the probes that read no more than these."""
        self.refused |= {"features": str(problem), "head": str(problem)}
        for name in [name for name in _OF_FEATURES if name in self.probes]:
            self.refuse(name, problem)

    def ask_once_only(self, problem: UserError) -> None:
        """Go on without layers and probes, for a model in which nobody can listen."""
        if self.layers:
            self.refuse_layers(problem)
        for name in list(self.probes):
            self.refuse(name, problem)

    def refuse_layers(self, problem: UserError) -> None:
        """Go on without all that reads layers."""
        if not self.lenient:
            raise problem
        self.layers, self.refused["layers"] = False, str(problem)
        for name in [name for name, probe in self.probes.items() if "stages" in probe.wants]:
            self.refuse(name, problem)


def _pass(
    subject: Subject,
    wish: _Wish,
    name: str,
    batches: Iterable[tuple[Batch, Tensor | None]],
    *,
    training: bool,
) -> Outputs:
    """Run one data set through the model, keeping what enters and leaves the head."""
    learners: dict[str, Learner] = {}
    if training:
        learners = {
            key: probe.learner() for key, probe in wish.probes.items() if probe.learner is not None
        }
    kept = _Kept()
    for inputs, labels in batches:
        question = _ask(subject, wish, name, inputs, labels, kept.rows)
        if subject.lacking is not None:
            wish.go_without_head(subject.lacking)
        for key in [key for key in learners if key in wish.probes]:
            with _blamed_on(key, question, wish):
                learners[key].see(question)
        asked_now = {
            key: probe
            for key, probe in wish.probes.items()
            if key not in learners and (probe.of_training or not training)
        }
        kept.add(question, wish, asked_now)
    if not kept.rows:
        raise UserError(f"Data set '{name}' is empty.")
    outputs = kept.outputs(subject, name, strict=training or not wish.trained)
    for key in [key for key in learners if key in wish.probes]:
        try:
            wish.states[key], own = learners[key].learned(outputs)
        except UserError as problem:
            wish.refuse(key, problem)
            continue
        if own is not None:
            assert outputs.logits is not None
            own = own.to(outputs.logits.dtype)
            outputs = replace(outputs, probes={**outputs.probes, key: own})
    return outputs.refusing(wish.refused) if wish.refused else outputs


def _ask(
    subject: Subject, wish: _Wish, name: str, inputs: Batch, labels: Tensor | None, place: int
) -> Question:
    """Run the one forward pass that all share; with gradients and with a record, if wanted."""
    wants = {want for probe in wish.probes.values() for want in probe.wants}
    prefix = Prefix(subject.model, dropouts(subject.model)) if "prefix" in wants else None
    with ExitStack() as stack:
        if "graph" in wants:
            stack.enter_context(torch.enable_grad())
            if isinstance(inputs, Tensor) and inputs.is_floating_point():
                inputs = inputs.detach().clone().requires_grad_()
        if prefix is not None:
            stack.enter_context(prefix.recording())
        try:
            answer = subject.ask(name, inputs, stages=wish.layers or "stages" in wants)
        except StagesError as problem:
            wish.refuse_layers(problem)
            return _ask(subject, wish, name, inputs, labels, place)
    graph = answer if "graph" in wants else None
    return Question(subject, name, inputs, labels, place, answer.detached(), graph, prefix)


class _Kept:
    """What was asked of one data set so far, batch by batch."""

    def __init__(self) -> None:
        self.rows = 0
        self._features: list[Tensor] = []
        self._logits: list[Tensor] = []
        self._labels: list[Tensor] = []
        self._layers: dict[str, list[Tensor]] = {}
        self._probes: dict[str, list[Tensor]] = {}

    def add(self, question: Question, wish: _Wish, probes: Mapping[str, Probe]) -> None:
        """Keep the answer to one question, and to what the probes ask beside it."""
        answer, rows = question.answer, size_of(question.inputs)
        if question.subject.lacking is None:
            self._features.append(answer.features.cpu())
        self._logits.append(answer.logits.cpu())
        labels = question.labels
        self._labels.append(torch.full((rows,), -1) if labels is None else labels)
        if wish.layers:
            for stage, values in question.subject.pooled(answer).items():
                self._layers.setdefault(stage, []).append(values.cpu())
        for name, probe in probes.items():
            with _blamed_on(name, question, wish):
                value = _finite(name, probe.ask(question, wish.states.get(name, {})), question)
                self._probes.setdefault(name, []).append(value.cpu())
        self._probes = {name: parts for name, parts in self._probes.items() if name in wish.probes}
        self.rows += rows

    def outputs(self, subject: Subject, name: str, *, strict: bool) -> Outputs:
        """Put the batches together."""
        logits: Tensor | None = torch.cat(self._logits)
        assert logits is not None
        labels = join_labels(name, self._labels)
        if not strict:  # labels of outlier sets are of other classes
            labels = labels_of_outliers(labels, logits.shape[1])
        kept = torch.float64 if logits.dtype == torch.float64 else torch.float32
        features = head = None
        if subject.lacking is None:
            weight, bias = subject.head.weight_and_bias()
            kept = torch.float64 if weight.dtype == torch.float64 else torch.float32
            features = torch.cat(self._features)
            # In half precision the head's own rounding would look like wrong features: redo it.
            logits = logits if features.dtype == kept else None
            features = features.to(kept)
            head = Head(weight.to(kept, copy=True), bias.to(kept, copy=True))
        try:
            return Outputs(
                logits=None if logits is None else logits.to(kept),
                features=features,
                labels=labels,
                head=head,
                layers={stage: torch.cat(parts).to(kept) for stage, parts in self._layers.items()},
                probes={key: torch.cat(parts).to(kept) for key, parts in self._probes.items()},
            )
        except UserError as problem:
            raise UserError(f"Data set '{name}': {problem}") from None


@contextmanager
def _blamed_on(probe: str, question: Question, wish: _Wish) -> Iterator[None]:
    """Let whatever goes wrong be said of this probe in one sentence, and the others go on."""
    try:
        yield
    except UserError as problem:
        wish.refuse(probe, problem)
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - a stranger's network
        said = next(iter(str(problem).strip().splitlines()), "")
        blamed = UserError(
            f"Probe '{probe}' failed on data set '{question.dataset}': "
            f"{type(problem).__name__}: {said}"
        )
        blamed.__cause__ = problem
        wish.refuse(probe, blamed)


def _finite(probe: str, value: Tensor, question: Question) -> Tensor:
    bad = ~value.isfinite().reshape(len(value), -1).all(1)
    if bad.any():
        raise UserError(
            f"Probe '{probe}' gives NaN or infinity for {int(bad.sum())} of {len(value)} samples "
            f"of a batch of data set '{question.dataset}'."
        )
    return value
