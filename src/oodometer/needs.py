"""What detectors need: one grammar for all that they may read.

``logits``, ``features``, ``labels`` and ``head`` are plain outputs of the classifier. So are
``relative_logits``, logits up to a constant per sample: all that a softmax reads, and all that
probabilities tell. ``layers`` is the mean output of its stages, ``probe:odin`` what further passes
through it give, ``model:binary`` what a network says that was trained for detection,
``runs:ensemble`` what several training runs say together, ``outliers`` validation outliers to learn
from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from oodometer.errors import UserError, unknown

Source = Literal["outputs", "layers", "probe", "model", "runs", "outliers"]  # who answers

_BY_NAME = re.compile(r"(probe|model):([^/@]+)(?:@([1-9]\d*))?(?:/(.+))?")


@dataclass(frozen=True, order=True)
class Need:
    """One thing that a detector reads."""

    source: Source
    name: str = ""
    outliers: str = ""  # of a model that is trained against an outlier set: which one
    member: int = 0  # of a model that is an ensemble: which of its networks, from 1

    @classmethod
    def parse(cls, text: str, kind: str = "need") -> Need:
        """Read a need; `kind` is what it is, for the error.

        >>> Need.parse("probe:odin")
        Need(source='probe', name='odin', outliers='', member=0)
        """
        if text in _FIXED:
            return _FIXED[text]
        match = _BY_NAME.fullmatch(text)
        if match is None or ((match[3] or match[4]) and match[1] == "probe"):
            problem = unknown(kind, text, [*_FIXED, "probe:NAME", "model:NAME"])
            raise UserError(f"{problem}{_NO_INPUTS}") if text in _INPUTS else problem
        source: Source = "probe" if match[1] == "probe" else "model"
        return cls(source, match[2], match[4] or "", int(match[3] or 0))

    def __str__(self) -> str:
        if self.source == "outputs":
            return self.name
        of = f"@{self.member}" if self.member else ""
        of += f"/{self.outliers}" if self.outliers else ""
        return f"{self.source}:{self.name}{of}" if self.name else self.source

    @property
    def of_classifier(self) -> bool:
        """Whether the classifier answers it by itself, in one pass or several."""
        return self.source in ("outputs", "layers", "probe")

    @property
    def beyond_outputs(self) -> bool:
        """Whether plain outputs do not hold it: somebody is asked for it besides."""
        return self.source in ("layers", "probe", "model", "runs")


ENSEMBLE = Need("runs", "ensemble")
LAYERS = Need("layers")
OUTLIERS = Need("outliers")
PLAIN = ("logits", "relative_logits", "features", "labels", "head")
_INPUTS = frozenset({"input", "inputs", "image", "images", "samples"})
_NO_INPUTS = " Inputs are for a class with fit(images) and score(images)."
_FIXED = {str(n): n for n in (*(Need("outputs", p) for p in PLAIN), LAYERS, OUTLIERS, ENSEMBLE)}


def parse_needs(needs: Iterable[str | Need], kind: str = "need") -> frozenset[Need]:
    """Read several needs; those that were read before stay as they are."""
    if isinstance(needs, str):
        raise UserError(f"needs must be a set of names, such as {{'{needs}'}}, got '{needs}'.")
    return frozenset(n if isinstance(n, Need) else Need.parse(n, kind) for n in needs)


def in_text(needs: Iterable[Need]) -> list[str]:
    """The texts of needs, in alphabetical order."""
    return sorted(map(str, needs))
