"""What tells runs apart, and what kind of thing it is: every verdict depends on it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

Kind = Literal["repeat", "re_evaluation", "condition"]


@dataclass(frozen=True)
class Factor:
    """Something that runs differ in.

    - **repeat**: another training run of the same thing, such as another seed. Its levels mean
      nothing by themselves.
    - **re_evaluation**: the same training run, evaluated differently, such as at another epoch.
      Runs that differ in re-evaluations alone are not independent.
    - **condition**: a choice, such as the optimizer. Another level is another training run, too.
    """

    name: str
    kind: Kind = "condition"
    is_drawn: bool = False  # levels are random draws, such as subsets of the outliers

    @property
    def is_choice(self) -> bool:
        """Whether one may prefer a level to another."""
        return self.kind != "repeat" and not self.is_drawn


def names(factors: Iterable[Factor], *kinds: Kind) -> tuple[str, ...]:
    """Names of all factors, or of those of some kinds.

    >>> names([Factor("seed", "repeat"), Factor("optimizer")], "repeat")
    ('seed',)
    """
    return tuple(factor.name for factor in factors if not kinds or factor.kind in kinds)


class Title(NamedTuple):
    """What the title of a column in somebody else's table says about the factor behind it."""

    kind: Kind
    name: str = ""  # what such a factor is called here; empty: as its column
    is_job: bool = False  # a name that a cluster or an experiment tracker gave to the run
    is_drawn: bool = False  # see Factor


def _titles() -> Mapping[str, Title]:
    meanings = {  # repeats from the innermost: there are several seeds within a fold
        Title("repeat", "seed"): "seed randomseed rngseed seedid graine semilla",
        Title("repeat", "run"): "run runs runid runidx runindex trial trialid checkpointid modelid "
        "essai lauf durchlauf 试验",
        Title("repeat", "repeat"): "repeat repetition replicate rep wiederholung",
        Title("repeat", "fold"): "fold cvfold",
        Title("repeat", "split"): "split",
        Title("repeat"): "weights",  # the checkpoint files of `oodometer evaluate --weights`
        Title("repeat", "run", is_job=True): "job jobid jobnumber slurmjob slurmjobid slurmid "
        "taskid experimentid expid uid uuid hash runname runhash wandbid mlflowid mlflowrunid",
        Title("re_evaluation"): "epoch checkpoint bestby features fittedon testsize",
        Title("re_evaluation", is_drawn=True): "ooddraw",
    }
    return MappingProxyType(
        {title: meaning for meaning, titles in meanings.items() for title in titles.split()}
    )


TITLES = _titles()  # by `plain` title; whatever is not here is a condition
OPTIMIZERS = ("optimizer", "optimiser")  # plain titles of what updates the weights
# Plain titles of what says which labels a run was trained on.
LABELS = ("labelnoise", "trainingdataset", "noise", "noisetype", "labels", "trainlabels",
          "noiserate")  # fmt: skip


def plain(text: str) -> str:
    """Reduce a name to its lower-case letters and digits.

    >>> plain("FPR@95 ↓"), plain("Max-Softmax"), plain("OOD data set")
    ('fpr95', 'maxsoftmax', 'ooddataset')
    """
    return re.sub(r"[\W_]+", "", text.casefold())


def by_title(name: str) -> Factor:
    """Return the factor behind a column that is known by its title only.

    >>> by_title("Random seed").kind, by_title("Epoch").kind, by_title("optimizer").kind
    ('repeat', 're_evaluation', 'condition')
    """
    known = TITLES.get(plain(name), Title("condition"))
    return Factor(name, known.kind, known.is_drawn)


def first_titled(factors: Iterable[str], titles: Iterable[str]) -> str | None:
    """Return the factor that has the first of these plain titles that any factor has.

    >>> first_titled(["seed", "Label noise"], LABELS), first_titled(["seed"], LABELS)
    ('Label noise', None)
    """
    known = {plain(name): name for name in factors}
    return next((known[title] for title in titles if title in known), None)


def innermost_repeat(factors: Iterable[Factor]) -> str | None:
    """Return the repeat that varies within all others, in whatever order they are listed.

    >>> innermost_repeat([Factor("fold", "repeat"), Factor("seed", "repeat"), Factor("width")])
    'seed'
    """
    repeats = names(factors, "repeat")
    return first_titled(repeats, TITLES) or next(iter(repeats), None)


def declared(factors: Iterable[Factor | str]) -> tuple[Factor, ...]:
    """Factors as they were declared; a bare name has the kind that its title says."""
    return tuple(by_title(factor) if isinstance(factor, str) else factor for factor in factors)
