"""What detectors need: one grammar for all that they may read.

``logits``, ``features``, ``labels`` and ``head`` are plain outputs of the classifier, ``layers`` is
the mean output of its stages, ``probe:odin`` what further passes through it give, ``model:binary``
what a network says that was trained for detection, ``runs:ensemble`` what several training runs say
together, ``outliers`` validation outliers to learn from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from oodometer.errors import UserError, unknown

Source = Literal["outputs", "layers", "probe", "model", "runs", "outliers"]  # who answers

_OUTPUTS = ("logits", "features", "labels", "head")
_ALONE: dict[str, Source] = {"layers": "layers", "outliers": "outliers"}
_NAMED: dict[str, Source] = {"probe": "probe", "model": "model", "runs": "runs"}
_KNOWN = (*_OUTPUTS, *_ALONE, "probe:NAME", "model:NAME", "runs:ensemble")


@dataclass(frozen=True, order=True)
class Need:
    """One thing that a detector reads."""

    source: Source
    name: str = ""
    outliers: str = ""  # of a model that is trained against an outlier set: which one

    @classmethod
    def parse(cls, text: str, kind: str = "need") -> Need:
        """Read a need; `kind` is what it is, for the error.

        >>> Need.parse("probe:odin")
        Need(source='probe', name='odin', outliers='')
        """
        source, colon, rest = text.partition(":")
        if text in _OUTPUTS:
            return cls("outputs", text)
        if text in _ALONE:
            return cls(_ALONE[text])
        name, slash, outliers = rest.partition("/")
        made = cls(_NAMED[source], name, outliers) if colon and source in _NAMED else None
        if made is None or not name or bool(slash) != bool(made.source == "model" and outliers):
            raise unknown(kind, text, _KNOWN)
        if made.source == "runs" and made != ENSEMBLE:
            raise unknown(kind, text, _KNOWN)
        return made

    def __str__(self) -> str:
        if self.source == "outputs":
            return self.name
        of = f"/{self.outliers}" if self.outliers else ""
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


def parse_needs(texts: Iterable[str], kind: str = "need") -> frozenset[Need]:
    """Read several needs."""
    if isinstance(texts, str):
        raise UserError(f"needs must be a set of names, such as {{'{texts}'}}, got '{texts}'.")
    return frozenset(Need.parse(text, kind) for text in texts)


def in_text(needs: Iterable[Need]) -> list[str]:
    """The texts of needs, in alphabetical order."""
    return sorted(map(str, needs))
