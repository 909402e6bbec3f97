"""Which array of a file is which: by the names of Outputs, or by what people call them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

from oodometer.errors import UserError, unknown
from oodometer.saved.files import Array, Shelf

NAMES = ("logits", "features", "labels", "weight", "bias")
NAMED_PARTS = ("layers/", "probes/")  # before the names of layers and probes
_ALSO = {  # what others call them; "fc.weight" and "train_features" are told by their last word
    "logits": "logit output outputs pred preds prediction predictions prob probs probability "
    "probabilities softmax logprobs",
    "features": "feature feat feats embedding embeddings embed embeds emb embs penultimate "
    "representation representations latent latents hidden activations",
    "labels": "label target targets y y_true",
    "weight": "weights w kernel",
    "bias": "biases b",
}
_KNOWN = {word: name for name, words in _ALSO.items() for word in words.split()}
_KINDS = ("f", "fiub")  # of floats, of labels
_DIMENSIONS = {
    "logits": (2,),
    "features": (2, 3, 4),
    "labels": (1, 2),
    "weight": (2, 4),
    "bias": (1,),
}


def taken(
    path: Path, shelf: Shelf, wanted: Sequence[str]
) -> tuple[dict[str, Array], list[tuple[str, str]]]:
    """Read the arrays of a file that are of use, and which of them were told by other names.

    Other arrays are left alone, as people keep paths and ids in the same file. A name that looks
    like a slip of the pen is refused, and so is a choice between several.
    """
    found = {
        name: shelf[name]() for name in shelf if name in wanted or name.startswith(NAMED_PARTS)
    }
    guessed: dict[str, str] = {}
    for name in wanted:
        if name in found:
            continue
        fitting = {}
        for other in _candidates(name, shelf):
            try:
                array = shelf[other]()
            except UserError:  # it was only a guess that this one is meant
                continue
            if array.ndim in _DIMENSIONS[name] and array.dtype.kind in _KINDS[name == "labels"]:
                fitting[other] = array
        if len(fitting) > 1:
            raise UserError(
                f"Several arrays in '{path}' could be the {name}: {', '.join(fitting)}; call one "
                f"of them '{name}'."
            )
        for other, array in fitting.items():
            found[name], guessed[other] = array, name
    for name in shelf:
        slip = get_close_matches(name.lower(), [n for n in wanted if n not in found], cutoff=0.75)
        if slip and name not in guessed:
            raise unknown(f"array in '{path}':", name, NAMES)
    if not found:
        others = ", ".join(shelf) or "nothing"
        raise UserError(f"'{path}' holds none of {', '.join(NAMES)}, but {others}.")
    return found, list(guessed.items())


def _candidates(name: str, others: Iterable[str]) -> list[str]:
    """Names that mean the same; those that say it outright before those that end in it."""
    outright, by_end = [], []
    for other in others:
        plain = other.lower()
        last = re.split(r"[^a-z0-9]+", plain)[-1]
        if plain == name or _KNOWN.get(plain) == name:
            outright.append(other)
        elif last == name or (_KNOWN.get(last) == name and len(last) > 1):
            by_end.append(other)
    return outright or by_end
