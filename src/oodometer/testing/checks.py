"""The checks of the contract: each takes a detector and raises what it has to say against it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from oodometer.calls import Setting, setting_text
from oodometer.errors import UserError
from oodometer.needs import in_text
from oodometer.outputs import Head, Outputs
from oodometer.registry import Detector, InputsChangedError, ScoreOutputs
from oodometer.testing.randomness import global_seed, random_states
from oodometer.testing.toys import (
    CLASSES,
    TRAIN_ROWS,
    WatchedOutputs,
    scored_toys,
    shuffled,
    toy_outputs,
    train_toys,
    validation_toys,
    wide_outputs,
)

# A year as author-year citations print it, and not a part of an arXiv number or of a DOI.
_AUTHOR = re.compile(r"[^\W\d_]{2,}")
_YEAR = re.compile(r"(?<![\w:./-])(19|20)\d\d[a-z]?(?!\w|\.\d)")


@dataclass(frozen=True, eq=False)
class Trial:
    """One detector at one setting, with the fit and the scores that the checks share."""

    detector: Detector
    settings: Mapping[str, Setting]

    def fit(self, train: Outputs, validation: _Validation | None = None) -> ScoreOutputs:
        """Fit to copies, so that no check sees what another left behind."""
        inliers, outliers = validation or validation_toys()
        fitted = self.detector.fit(
            train.copy(), validation=(inliers.copy(), outliers.copy()), **self.settings
        )
        return lambda test: fitted(test.copy()).detach()

    @cached_property
    def score(self) -> ScoreOutputs:
        """The detector, fitted to the made-up training outputs."""
        return self.fit(train_toys())

    @cached_property
    def scores(self) -> Tensor:
        """Its scores of the made-up outputs to be scored."""
        return self.score(scored_toys())


_Validation = tuple[Outputs, Outputs]


class Broken(Exception):  # noqa: N818 - not an error of the program: what a check found
    """The sentence that a check has to say about a detector."""


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise Broken(sentence)


def _require_close(first: Tensor, second: Tensor, sentence: str) -> None:
    """Equal up to rounding, measured by how far the scores spread."""
    _require(first.shape == second.shape, f"{sentence}: even their number differs.")
    spread = float(first.max() - first.min()) or float(first.abs().max()) or 1.0
    gap = float((first.double() - second.double()).abs().max()) / spread
    _require(gap <= 1e-6, f"{sentence}: they differ by up to {gap:.2g} of their spread.")


def _ties(scores: Tensor) -> int:
    return len(scores) - len(set(scores.tolist()))


def runs(trial: Trial) -> None:
    """Fits and scores, reading only what it declared and never the labels of scored data."""
    scores = trial.scores
    _require(scores.shape == (80,), f"80 samples got scores of shape {tuple(scores.shape)}.")
    _require(bool(scores.isfinite().all()), "some scores are NaN or infinite.")


def direction(trial: Trial) -> None:
    """Planted outliers score higher."""
    inside, outside = trial.scores, trial.score(toy_outputs(80, 2, outliers=True))
    wins = (outside[:, None] > inside).double() + 0.5 * (outside[:, None] == inside).double()
    auroc = float(wins.mean())
    _require(
        auroc > 0.8,
        f"planted outliers reach an AUROC of {auroc:.2f} only (higher must mean more "
        "out-of-distribution).",
    )


def inputs_untouched(trial: Trial) -> None:
    """Leaves the outputs that it was given as they were, bit for bit."""
    pristine = (train_toys(), *validation_toys(), scored_toys())
    train, inliers, outliers, test = every = [part.copy() for part in pristine]
    try:
        trial.detector.fit(train, validation=(inliers, outliers), **trial.settings)(test)
    except InputsChangedError as problem:
        raise Broken(str(problem)) from problem
    for data, before in zip(every, pristine, strict=True):
        what = "scoring" if data is test else "fitting"
        for name, tensor in data.tensors().items():
            same = torch.equal(tensor, before.tensors()[name])
            _require(same, f"{what} changed outputs.{name} in place.")


def batches_do_not_matter(trial: Trial) -> None:
    """Scores a sample alike whatever it is scored together with."""
    parts = [trial.score(scored_toys().take(rows)) for rows in torch.arange(80).chunk(7)]
    _require_close(trial.scores, torch.cat(parts), "scores depend on the batch")


def row_order_does_not_matter(trial: Trial) -> None:
    """Scores follow their samples when those are reordered."""
    order = shuffled(80)
    again = trial.score(scored_toys().take(order))
    _require_close(trial.scores[order], again, "scores depend on the order of the samples")


def training_order_does_not_matter(trial: Trial) -> None:
    """The order of the training samples changes nothing."""
    inliers, outliers = (part.take(shuffled(len(part))) for part in validation_toys())
    again = trial.fit(train_toys().take(shuffled(TRAIN_ROWS)), (inliers, outliers))(scored_toys())
    _require_close(trial.scores, again, "scores depend on the order of the training samples")


def class_order_does_not_matter(trial: Trial) -> None:
    """The numbering of the classes changes nothing."""
    order = torch.tensor([3, 0, 4, 1, 2])

    def renamed(outputs: Outputs) -> Outputs:
        own = outputs.tensors()
        return replace(
            outputs,
            logits=own["logits"][:, order],
            labels=order.argsort()[own["labels"]],
            head=Head(own["head.weight"][order], own["head.bias"][order]),
        )

    inliers, outliers = map(renamed, validation_toys())
    again = trial.fit(renamed(train_toys()), (inliers, outliers))(renamed(scored_toys()))
    _require_close(trial.scores, again, "scores depend on how the classes are numbered")


def repeatable(trial: Trial) -> None:
    """A second fit gives the same scores, bit for bit."""
    again = trial.fit(train_toys())(scored_toys())
    _require(torch.equal(trial.scores, again), "two fits to the same data give different scores.")


def keeps_no_memory(trial: Trial) -> None:
    """What was scored before changes nothing."""
    fitted = trial.fit(train_toys())  # afresh: the shared one has seen outliers
    first = fitted(scored_toys())
    fitted(toy_outputs(80, 2, outliers=True))
    _require(torch.equal(first, fitted(scored_toys())), "scores depend on what was scored before.")


def no_global_randomness(trial: Trial) -> None:
    """Neither uses nor changes the global random state of torch, NumPy or Python."""
    found = []
    for seed in (11, 12):
        with global_seed(seed):
            before = random_states()
            found.append(trial.fit(train_toys())(scored_toys()))
            after = random_states()
        moved = [name for name in before if before[name] != after[name]]
        _require(not moved, f"the global random state of {' and '.join(moved)} was changed.")
    _require(torch.equal(*found), "scores depend on the global random state.")


def single_precision(trial: Trial) -> None:
    """float32 outputs give float64's ranking, without ties between different samples."""
    exact, single = trial.scores, torch.float32
    validation = validation_toys(dtype=single)
    rough = trial.fit(train_toys(dtype=single), validation)(scored_toys(dtype=single))
    for scores, name in ((exact, "float64"), (rough, "float32")):
        tied = _ties(scores)
        _require(not tied, f"in {name}, {tied} of 80 different samples tie with another.")
    ranks = torch.stack([x.argsort().argsort().double() for x in (exact, rough)])
    agreement = float(torch.corrcoef(ranks)[0, 1])
    _require(agreement > 0.999, f"float32 ranks samples otherwise (correlation {agreement:.4f}).")


def sure_predictions(trial: Trial) -> None:
    """Tells samples apart where the network is sure of all of them, logits in the thousands."""
    kind = (200.0, torch.float32)
    scores = trial.fit(train_toys(*kind), validation_toys(*kind))(scored_toys(*kind))
    tied = _ties(scores)
    _require(not tied, f"{tied} of 80 samples tie with another when the network is sure of them.")


def single_row(trial: Trial) -> None:
    """One sample alone gets one score, the same as among others."""
    alone = torch.cat([trial.score(scored_toys().take(torch.tensor([row]))) for row in range(3)])
    _require_close(trial.scores[:3], alone, "a sample scored alone gets another score")


def _finite_or_refused(trial: Trial, case: str, *data: Outputs) -> None:
    train, test, inliers, outliers = data
    try:
        trial.fit(train, (inliers, outliers))(test)
    except InputsChangedError:
        raise
    except UserError as problem:
        _require("NaN" not in str(problem), f"with {case}: {problem}")


def missing_class(trial: Trial) -> None:
    """Classes without training samples and samples without a class are handled."""
    train = train_toys().take((torch.arange(TRAIN_ROWS) % CLASSES != 2).nonzero()[:, 0])
    unknown = torch.arange(len(train)) % 10 == 0
    labels = torch.where(unknown, -1, train.tensors()["labels"])
    train = replace(train, labels=labels)
    _finite_or_refused(trial, "a class without samples", train, scored_toys(), *validation_toys())


def dead_units(trial: Trial) -> None:
    """Units that are always zero, or copies of others, are handled."""

    def damaged(outputs: Outputs) -> Outputs:
        features = outputs.tensors()["features"].clone()
        features[:, 5:9] = 0.0
        features[:, 20] = features[:, 21]
        return replace(outputs, features=features, logits=None)

    data = (train_toys(), scored_toys(), *validation_toys())
    _finite_or_refused(trial, "dead units", *map(damaged, data))


def card(detector: Detector) -> None:
    """Says what it is: a summary, a dated reference, what it reads."""
    _require(bool(detector.summary.strip()), "the docstring needs a first line.")
    _require(
        bool(_YEAR.search(detector.paper)),
        f"the paper '{detector.paper}' needs a year, such as 2026 or 2026b.",
    )
    _require(
        bool(_AUTHOR.search(_YEAR.sub("", detector.paper))),
        f"the paper '{detector.paper}' needs an author, such as You {detector.paper}.",
    )
    _require(bool(detector.needs), "a detector that needs nothing cannot detect anything.")


def needs_are_read(detector: Detector) -> None:
    """Whatever it declares to need is read at some setting."""
    train, test = WatchedOutputs.of(train_toys()), WatchedOutputs.of(scored_toys())
    together = itertools.product(*detector.needs_for.values())
    named = [dict(zip(detector.needs_for, values, strict=True)) for values in together]
    for settings in (*detector.settings(), *named):
        detector.fit(train, validation=validation_toys(), **settings)(test)
    read = set().union(*(view.read for view in (*train.views, *test.views)))
    unread = in_text(detector.needs - read)
    _require(not unread, f"it declares to need {' and '.join(unread)} and never reads it.")


def grid_matters(detector: Detector) -> None:
    """Every two settings of the grid give different scores."""
    wide = (wide_outputs(40, 8), wide_outputs(40, 9))
    data = (
        (wide_outputs(1100, 0), wide, wide_outputs(24, 7)),
        (train_toys(), validation_toys(), scored_toys()),
    )
    tried, found = list(detector.settings()), []
    for settings in tried:
        scores = [
            detector.fit(train.copy(), validation=validation, **settings)(test.copy())
            for train, validation, test in data
        ]
        found.append(torch.cat(scores))
    every = torch.stack(found)
    for place, settings in enumerate(tried):
        a, b = every[place], every[place + 1 :]
        gaps = ((a - b).abs() / (a.abs() + b.abs()).clamp_min(1e-30)).amax(1)
        for same in [tried[place + 1 + other] for other in (gaps <= 1e-9).nonzero()[:1, 0]]:
            both = f"{setting_text(settings)} and {setting_text(same)}"
            _require(False, f"settings {both} give the same scores.")


CHECKS: dict[str, Callable[[Trial], None]] = {
    check.__name__: check
    for check in (
        runs,
        direction,
        inputs_untouched,
        batches_do_not_matter,
        row_order_does_not_matter,
        training_order_does_not_matter,
        class_order_does_not_matter,
        repeatable,
        keeps_no_memory,
        no_global_randomness,
        single_precision,
        sure_predictions,
        single_row,
        missing_class,
        dead_units,
    )
}
WHOLE_CHECKS: dict[str, Callable[[Detector], None]] = {
    check.__name__: check for check in (card, needs_are_read, grid_matters)
}
