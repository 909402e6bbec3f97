"""What a detector sees of outputs: the fields that it declared."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

import torch
from torch import Tensor

from oodometer.errors import UserError
from oodometer.needs import LAYERS, OUTLIERS, PLAIN, Need, in_text
from oodometer.outputs.refusal import RefusedError

if TYPE_CHECKING:
    from oodometer.outputs.outputs import Head, Outputs

Shared = TypeVar("Shared")


class NotAnOutputError(UserError, AttributeError, KeyError):
    """A detector read what no outputs have."""

    __str__ = BaseException.__str__  # not that of KeyError, which quotes the sentence


class _Layers(dict[str, Tensor]):
    """Layers by name; a name that is not there is answered with those that are."""

    def __missing__(self, name: object) -> NoReturn:
        raise NotAnOutputError(
            f"There is no layer {name!r}: layers are read by name, and these outputs have "
            f"{', '.join(map(repr, self))}."
        )


class View:
    """Outputs restricted to the fields that a detector declared; reading another is an error."""

    def __init__(
        self, outputs: Outputs, needs: frozenset[Need], reader: str, outliers: str = ""
    ) -> None:
        self._outputs, self._needs, self._reader = outputs, needs, reader
        self._outliers = outliers
        self._validation: tuple[View, View] | None = None

    def with_validation(self, inliers: View, outliers: View) -> View:
        """Show validation data besides: for detectors that learn from outliers."""
        self._validation = (inliers, outliers)
        return self

    def _require_declared(self, need: Need) -> None:
        if need not in self._needs:
            hint = (
                "labels are shown for fitting only"
                if need == Need("outputs", "labels")
                else f"declare needs={in_text({*self._needs, need})}"
            )
            raise UserError(f"Detector '{self._reader}' read outputs.{need}: {hint}.")

    def _tensor(self, name: str) -> Tensor:
        need = Need("outputs", name)
        self._require_declared(need)
        value: Tensor | None = getattr(self._outputs, name)
        if value is None or name in self._outputs.refused:
            raise self._lacking(need, name)
        return value

    @property
    def logits(self) -> Tensor:
        """(n, classes)."""
        return self._tensor("logits")

    @property
    def relative_logits(self) -> Tensor:
        """(n, classes): logits up to a constant per sample, which is all that a softmax reads.

        Outputs that hold probabilities alone have these and no `logits`.
        """
        return self._tensor("relative_logits")

    @property
    def features(self) -> Tensor:
        """(n, width), exactly what enters the head."""
        return self._tensor("features")

    @property
    def labels(self) -> Tensor:
        """(n,) int64, -1 where the class is not known. Never shown for data that is scored."""
        return self._tensor("labels")

    @property
    def head(self) -> Head:
        """The last linear layer."""
        need = Need("outputs", "head")
        self._require_declared(need)
        if self._outputs.head is None:
            raise self._lacking(need, "head")
        return self._outputs.head

    @property
    def layers(self) -> Mapping[str, Tensor]:
        """Mean output of every stage, (n, channels), by its name."""
        self._require_declared(LAYERS)
        if not self._outputs.layers:
            raise self._lacking(LAYERS, "layers")
        return _Layers(self._outputs.layers)

    @property
    def validation(self) -> tuple[View, View]:
        """In-distribution samples and outliers to learn from; both are unlike what is scored."""
        self._require_declared(OUTLIERS)
        if self._validation is None:
            raise UserError(f"Detector '{self._reader}' needs validation outliers to learn from.")
        return self._validation

    def probe(self, name: str) -> Tensor:
        """(n, ...): what asking the network more than once gave."""
        need = Need("probe", name)
        self._require_declared(need)
        if name not in self._outputs.probes:
            raise self._lacking(need, f"the probe '{name}'")
        return self._outputs.probes[name]

    def model(self, name: str) -> Tensor:
        """(n, ...): what a network says that was trained for detection.

        Where there is one for every outlier set, it is that of the validation outliers. Answers of
        an ensemble are stacked, (n, members, ...).
        """
        need = Need("model", name)
        self._require_declared(need)
        answers = self._outputs.answers
        for possible in (Need("model", name, self._outliers), need):
            if possible in answers:
                return answers[possible]
            members = [each for each in sorted(answers) if replace(each, member=0) == possible]
            if members:
                return torch.stack([answers[each] for each in members], dim=1)
        raise self._lacking(need, f"the model '{name}'", "a study trains it, see 'oodometer run'")

    def runs(self, name: str) -> Tensor:
        """(n, ...): what several training runs say together."""
        need = Need("runs", name)
        self._require_declared(need)
        if need not in self._outputs.answers:
            why = "it combines several training runs, see 'oodometer run'"
            raise self._lacking(need, f"the {name} of runs", why)
        return self._outputs.answers[need]

    def _lacking(self, need: Need, named: str, usual: str = "") -> UserError:
        """The error to raise for what is not there, with the reason where it is known."""
        sentence = f"Detector '{self._reader}' needs {named}, which these outputs lack"
        why = self._outputs.refused.get(str(need))
        if why:
            return RefusedError(sentence, str(why))
        return UserError(f"{sentence}: {usual}." if usual else f"{sentence}.")

    def shared(self, key: Hashable, compute: Callable[[], Shared]) -> Shared:
        """Compute once what several settings or detectors use of these outputs; never write to it.

        The key names what is computed; what it depends on besides these outputs belongs to the
        key. Other people's detectors work on copies, so they share nothing with anybody.
        """
        known = self._outputs._shared
        if key not in known:
            known[key] = compute()
        return cast("Shared", known[key])

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # Python asks for some of these
            raise AttributeError(name)
        raise NotAnOutputError(
            f"Detector '{self._reader}' read outputs.{name}, which does not exist: outputs have "
            f"{', '.join((*PLAIN, 'layers', 'validation', 'probe(), model() and runs()'))}."
        )

    def __len__(self) -> int:
        return len(self._outputs)
