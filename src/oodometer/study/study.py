"""A study as a whole: its checks, its scales, and its runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from oodometer.errors import UserError, unknown
from oodometer.study.complaints import explain
from oodometer.study.fields import (
    FILE_IN_A_FIELD,
    Factor,
    Level,
    Number,
    Scale,
    Searches,
    TrainSpec,
)

MOST_RUNS = 100_000  # of one study


class Study(BaseModel):
    """Which classifiers to train, and which detectors to score on which outlier sets."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._ -]*$")
    base: TrainSpec
    factors: tuple[Factor, ...] = ()
    design: Literal["grid", "one_at_a_time"] = "grid"
    detectors: Literal["all"] | tuple[str, ...] = "all"
    ood: tuple[str, ...] = Field(min_length=1)
    protocols: tuple[str, ...] = ("ranking",)
    searches: Searches | None = None  # for outliers that fool the detectors
    ours: str = ""  # the detector whose comparisons are declared in advance
    accuracy: Annotated[Number, Field(ge=0, le=1)] = 0.0  # which every classifier should reach
    keep_unlearned: bool = False  # also classifiers no better than chance, or than their siblings
    scales: Mapping[str, Scale] = Field(default_factory=dict)  # name -> a smaller version

    def model_post_init(self, context: object) -> None:
        """Check across fields: factors are fields of TrainSpec, and nothing is listed twice."""
        fields = [factor.field for factor in self.factors]
        for name in fields:
            if name not in TrainSpec.model_fields:
                raise unknown("factor", name, TrainSpec.model_fields)
        if "data" in fields:
            raise UserError(
                "'data' cannot be a factor, because all runs of a study are compared on the same "
                "in-distribution set: write one study file per data set and run them with the same "
                "store."
            )
        _refuse_repeats("factors", fields)
        for factor in self.factors:
            _refuse_repeats(f"levels of factor '{factor.field}'", factor.levels)
        many = prod(len(factor.levels) for factor in self.factors)
        if self.design == "grid" and many > MOST_RUNS:
            raise UserError(
                f"Study '{self.name}' has {many:,} runs, the combinations of all levels; at most "
                f"{MOST_RUNS:,} are possible."
            )
        _refuse_repeats("ood", self.ood)
        _refuse_repeats("protocols", self.protocols)
        if self.detectors != "all":
            _refuse_repeats("detectors", self.detectors)
            if not self.detectors:
                raise UserError("detectors must be 'all' or a list with at least one detector.")
        if self.searches is not None:
            _refuse_repeats("searches.variations", self.searches.variations)
            for name in self.searches.methods:
                if name not in self.searches.variations:
                    raise unknown("variation in searches.methods", name, self.searches.variations)
        for name in self.scales:
            self.at_scale(name)  # report errors in a scale now

    def at_scale(self, name: str) -> Study:
        """Return the study at one of its scales, as a separate study."""
        if name not in self.scales:
            raise unknown(f"scale of study '{self.name}'", name, self.scales)
        scale = self.scales[name]
        varied = {factor.field: factor for factor in self.factors}
        for factor in scale.factors:
            if factor.field not in varied:
                raise unknown(f"factor at scale '{name}'", factor.field, varied)
            varied[factor.field] = factor
        try:
            base = TrainSpec.model_validate(self.base.model_dump() | dict(scale.base))
        except ValidationError as problem:
            raise explain(problem, TrainSpec, f"scale '{name}', base") from None
        searches = self.searches
        if scale.searches:
            known = {} if searches is None else searches.model_dump()
            try:
                searches = Searches.model_validate(known | dict(scale.searches))
            except ValidationError as problem:
                raise explain(problem, Searches, f"scale '{name}', searches") from None
        return Study(
            name=f"{self.name}-{name}",
            base=base,
            factors=tuple(varied.values()),
            design=self.design,
            detectors=self.detectors if scale.detectors is None else scale.detectors,
            ood=self.ood if scale.ood is None else scale.ood,
            protocols=self.protocols,
            searches=searches,
            ours=self.ours,
            accuracy=scale.accuracy,
            keep_unlearned=self.keep_unlearned or scale.keep_unlearned,
        )

    def runs(self) -> dict[str, tuple[TrainSpec, dict[str, Level]]]:
        """Return every run by label, with its specification and its factor levels."""
        runs: dict[str, tuple[TrainSpec, dict[str, Level]]] = {}
        seen: set[TrainSpec] = set()
        base = self.base.model_dump()
        for changed in self._combinations():
            spec = self._spec(base | changed)
            # As validated: 1e-3, which YAML reads as text, is the number 0.001.
            values = {name: getattr(spec, name) for name in changed}
            levels = {name: _shown(value) for name, value in values.items()}
            if _label(levels) in runs:  # files with the same name in two folders
                levels = {name: _shown(value, short=False) for name, value in values.items()}
            label = _label(levels)
            if spec in seen:
                raise UserError(
                    f"Study '{self.name}' contains the same run twice, {label}: two levels of a "
                    "factor are equivalent."
                )
            seen.add(spec)
            runs[label] = (spec, levels)
        return runs

    def _spec(self, values: Mapping[str, object]) -> TrainSpec:
        try:
            return TrainSpec.model_validate(values)
        except ValidationError as problem:
            raise explain(problem, TrainSpec, f"Study '{self.name}', factors") from None

    def _combinations(self) -> Iterator[dict[str, object]]:
        if self.design == "grid":
            for values in itertools.product(*(factor.levels for factor in self.factors)):
                yield {f.field: v for f, v in zip(self.factors, values, strict=True)}
            return
        base: dict[str, object] = {f.field: getattr(self.base, f.field) for f in self.factors}
        yield base
        for factor in self.factors:
            for value in factor.levels:
                changed = base | {factor.field: value}
                if self._spec(self.base.model_dump() | changed) != self.base:
                    yield changed


def _label(levels: Mapping[str, Level]) -> str:
    return ", ".join(f"{name}={value}" for name, value in levels.items()) or "base"


def _shown(value: object, *, short: bool = True) -> Level:
    """A level as tables show it; files by name, unless two have the same name."""
    if value is None:
        return "default"
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    if isinstance(value, str) and short:
        return FILE_IN_A_FIELD.sub(lambda match: f"path={Path(match[1]).name}", value)
    return value if isinstance(value, bool | int | float | str) else str(value)


def _refuse_repeats(where: str, values: Sequence[object]) -> None:
    seen: set[object] = set()
    for value in values:
        if value in seen:
            raise UserError(f"{where} lists '{value}' twice.")
        seen.add(value)
