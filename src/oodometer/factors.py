"""What tells runs apart, and what kind of thing it is: every verdict depends on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, KeysView, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, NamedTuple

Kind = Literal["repeat", "re_evaluation", "condition", "part"]


@dataclass(frozen=True)
class Factor:
    """Something that runs differ in.

    - **repeat**: another training run of the same thing, such as another seed. Its levels mean
      nothing by themselves.
    - **re_evaluation**: the same training run, evaluated differently, such as at another epoch.
      Runs that differ in re-evaluations alone are not independent.
    - **condition**: a choice, such as the optimizer. Another level is another training run, too.
    - **part**: a part of the data set, such as a time series or a patient: neither a training run
      nor a choice. Parts are averaged within their set before anything else is compared.
    """

    name: str
    kind: Kind = "condition"
    is_drawn: bool = False  # levels are random draws, such as subsets of the outliers

    @property
    def is_choice(self) -> bool:
        """Whether one may prefer a level to another."""
        return self.kind in ("condition", "re_evaluation") and not self.is_drawn


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
        Title("repeat", "seed"): "seed randomseed rngseed seedid modelseed graine semilla",
        Title("repeat", "run"): "run runs runid runidx runindex trial trialid checkpointid modelid "
        "essai lauf durchlauf 试验",
        Title("repeat", "repeat"): "repeat repetition replicate replication rep restart attempt "
        "wiederholung",
        Title("repeat", "iteration"): "iteration iter itr",
        Title("repeat", "fold"): "fold cvfold",
        Title("repeat", "split"): "split",
        Title("repeat"): "weights",  # the checkpoint files of `oodometer evaluate --weights`
        Title("repeat", "run", is_job=True): "job jobid jobnumber slurmjob slurmjobid slurmid "
        "taskid experimentid expid uid uuid hash runname runhash wandbid mlflowid mlflowrunid",
        Title(
            "re_evaluation"
        ): "epoch step episode checkpoint ckpt bestby features fittedon testsize top coverage "
        "threshold cutoff percentile quantile operatingpoint severity severitylevel",
        Title("re_evaluation", is_drawn=True): "ooddraw",
        Title("part"): "series seriesid seriesname timeseries timeseriesid ts file filename fileid "
        "fname subject subjectid patient patientid participant participantid instance instanceid "
        "recording recordingid video videoid clip scene class classname classid station stationid "
        "sensor sensorid qid queryid questionid",
    }
    return MappingProxyType(
        {title: meaning for meaning, titles in meanings.items() for title in titles.split()}
    )


TITLES = _titles()  # by `plain` title; whatever is not here is a condition
_OTHER = Title("condition")
# Of test data, at random or by somebody who means to mislead a network.
CORRUPTIONS = ("corruption", "corruptiontype", "corruptionname", "attack", "attacktype",
               "attackname")  # fmt: skip
_DEGREES = ("level", "intensity", "strength", "magnitude")  # titles, beside corruptions
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


def words_of(text: str) -> KeysView[str]:
    """Return the different words of a name, in order, each in lower-case letters and digits.

    >>> list(words_of("Val_acc (best)"))
    ['val', 'acc', 'best']
    """
    return dict.fromkeys(filter(None, map(plain, re.split(r"[\W_]+", text)))).keys()


def by_title(name: str, levels: Iterable[object] = (), beside: Iterable[str] = ()) -> Factor:
    """Return the factor behind a column that is known by its title, and perhaps by its levels.

    Levels decide where a title has several meanings: a split may be a fold or a subset of the data,
    weights a checkpoint or what a network was pretrained on, an iteration a run or a training step,
    a checkpoint a moment of training or another model. So may the titles `beside` it: a level of a
    corruption is its severity.

    >>> [by_title("level", beside=others).kind for others in (["corruption"], ["seed"])]
    ['re_evaluation', 'condition']
    >>> by_title("Random seed").kind, by_title("Epoch").kind, by_title("optimizer").kind
    ('repeat', 're_evaluation', 'condition')
    >>> [by_title("split", by).kind for by in ([0, 1], ["val", "test"], ["random", "scaffold"])]
    ['repeat', 're_evaluation', 'condition']
    """
    title = plain(name)
    known = TITLES.get(title, _OTHER)
    texts = [str(level) for level in levels]
    if are_checkpoints(texts):
        return Factor(name, "repeat")
    if len(texts) > 1 and all(plain(text) in _MOMENTS for text in texts):
        return Factor(name, "re_evaluation")
    if title in _DEGREES and any(plain(other) in CORRUPTIONS for other in beside):
        return Factor(name, "re_evaluation")
    for otherwise in _BY_LEVELS.get(title, ()) if texts else ():
        if otherwise.applies(texts):
            return Factor(name, otherwise.kind)
    return Factor(name, known.kind, known.is_drawn)


def are_checkpoints(levels: Iterable[str]) -> bool:
    """Whether these are files of trained networks, one for each run.

    >>> are_checkpoints(["net_0.pth", "net_1.pth"]), are_checkpoints(["resnet18"])
    (True, False)
    """
    texts = list(levels)
    return bool(texts) and all(_CHECKPOINT.fullmatch(text.strip()) for text in texts)


def _are_subsets(levels: Sequence[str]) -> bool:
    """Whether these are parts of the data, such as train and test."""
    return any(_SUBSET.fullmatch(level.strip()) for level in levels)


def _are_ways(levels: Sequence[str]) -> bool:
    """Whether these say how data were split, such as at random or by subjects: words alone."""
    return len(levels) > 1 and all(_WORD.fullmatch(level.strip()) for level in levels)


def _are_pretrainings(levels: Sequence[str]) -> bool:
    """Whether these say what a network was pretrained on: words, not numbers or files."""
    named = any(_PRETRAINING.search(level) for level in levels)
    return named or not any(re.search(r"\d|\.\w{1,5}$|[/\\]", level) for level in levels)


def _are_steps(levels: Sequence[str]) -> bool:
    """Whether these are numbers of training steps: far apart, as no count of repeats is."""
    numbers = [float(level) for level in levels if _NUMBER.fullmatch(level.strip())]
    return len(numbers) == len(levels) and max(numbers) >= max(100, 3 * len(set(numbers)))


def _are_models(levels: Sequence[str]) -> bool:
    """Whether checkpoints are those of different models: none says when it was stored."""
    return not any(_STORED.fullmatch(level.strip()) for level in levels)


class _Otherwise(NamedTuple):
    """Levels with which a title means something else."""

    kind: Kind
    applies: Callable[[Sequence[str]], bool]


_SUBSET = re.compile(
    r"(?i)(?:train(?:ing)?|test(?:ing)?|val|valid(?:ation)?|dev|eval(?:uation)?|holdout)(?:[\W_].*)?"
)
_WORD = re.compile(r"[^\W\d]{3,}(?:[\s\-][^\W\d]+)*")
_CHECKPOINT = re.compile(r"(?i).+\.(?:pth?|ckpt|h5|hdf5|safetensors|keras|pth?\.tar)")
_PRETRAINING = re.compile(r"(?i)imagenet|pretrain|scratch|random|laion|openai|jft|coco|^none$")
_NUMBER = re.compile(r"\d+(\.0*)?")
_MOMENTS = frozenset({"best", "last", "final", "latest"})  # at which networks are stored
_STORED = re.compile(
    r"(?i)(?:best|last|final|latest|ema|swa|init|early|(?:epoch|ep|e|step|iter|iteration|ckpt|checkpoint)"
    r"?[\W_]*\d+[km]?)(?:[\W_].*)?"
)
_BY_LEVELS: Mapping[str, tuple[_Otherwise, ...]] = MappingProxyType(
    {
        "split": (_Otherwise("re_evaluation", _are_subsets), _Otherwise("condition", _are_ways)),
        "weights": (_Otherwise("condition", _are_pretrainings),),
        "checkpoint": (_Otherwise("condition", _are_models),),
        "ckpt": (_Otherwise("condition", _are_models),),
        **{
            title: (_Otherwise("re_evaluation", _are_steps),)
            for title in ("iteration", "iter", "itr")
        },
    }
)


def within_runs(factors: Iterable[Factor]) -> tuple[Factor, ...]:
    """Take corruptions of test data for re-evaluations where there are repeated runs.

    Each run is evaluated on all of them. Of single runs, nothing but corruptions tells how far
    results vary.

    >>> [factor.kind for factor in within_runs([Factor("corruption"), Factor("seed", "repeat")])]
    ['re_evaluation', 'repeat']
    """
    given = tuple(factors)
    repeated = any(factor.kind == "repeat" for factor in given)
    return tuple(
        replace(factor, kind="re_evaluation")
        if repeated and factor.kind == "condition" and plain(factor.name) in CORRUPTIONS
        else factor
        for factor in given
    )


def is_fold(factor: Factor) -> bool:
    """Whether levels are folds of a cross-validation, which share most of their training data.

    >>> is_fold(Factor("CV fold", "repeat")), is_fold(Factor("seed", "repeat"))
    (True, False)
    """
    return factor.kind == "repeat" and TITLES.get(plain(factor.name), _OTHER).name == "fold"


def shared_repeats(factors: Iterable[Factor]) -> tuple[str, ...]:
    """Return the repeats whose levels several runs may have in common, beside other factors.

    Runs on one fold or split have their data in common, and so may runs within any repeat but the
    innermost. The same seed of two networks means nothing.

    >>> shared_repeats([Factor("fold", "repeat"), Factor("seed", "repeat"), Factor("width")])
    ('fold',)
    >>> shared_repeats([Factor("model_seed", "repeat"), Factor("seed", "repeat")])
    ()
    """
    given = tuple(factors)
    innermost = innermost_repeat(given)
    meanings = {name: TITLES.get(plain(name), _OTHER).name for name in names(given, "repeat")}
    return tuple(
        name
        for name, meaning in meanings.items()
        if meaning in ("fold", "split") or (name != innermost and meaning != "seed")
    )


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


def declared(
    factors: Iterable[Factor | str], levels: Callable[[str], Iterable[object]] = lambda _: ()
) -> tuple[Factor, ...]:
    """Factors as they were declared; a bare name has the kind that its title and levels say."""
    return tuple(
        by_title(factor, levels(factor)) if isinstance(factor, str) else factor
        for factor in factors
    )
