"""Which array of a file is which: by the names of Outputs, or by what people call them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

from oodometer.errors import UserError, unknown
from oodometer.saved.files import Array, ArrayReaders

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


def match_arrays(
    path: Path, readers: ArrayReaders, wanted: Sequence[str]
) -> tuple[dict[str, Array], list[tuple[str, str]]]:
    """Read the wanted arrays of a file; return them, and which were recognized by another name.

    Other arrays are ignored, as people keep paths and ids in the same file. A name that looks like
    a typing error is refused, and so is a choice between several.
    """
    arrays = {
        name: read()
        for name, read in readers.items()
        if name in wanted or name.startswith(NAMED_PARTS)
    }
    recognized: dict[str, str] = {}
    for name in wanted:
        fitting = {} if name in arrays else _fitting(name, readers)
        if len(fitting) > 1:
            raise UserError(
                f"Several arrays in '{path}' could be the {name}: {', '.join(fitting)}; call one "
                f"of them '{name}'."
            )
        for other, array in fitting.items():
            arrays[name], recognized[other] = array, name
    absent = [name for name in wanted if name not in arrays]
    for name in readers:
        if name not in recognized and get_close_matches(name.lower(), absent, cutoff=0.75):
            raise unknown(f"array in '{path}':", name, NAMES)
    if not arrays:
        others = ", ".join(readers) or "nothing"
        raise UserError(f"'{path}' holds none of {', '.join(NAMES)}, but {others}.")
    return arrays, list(recognized.items())


def _fitting(name: str, readers: ArrayReaders) -> dict[str, Array]:
    """Arrays that may be meant by another name and have the right type and dimensions."""
    fitting = {}
    for other in _candidates(name, readers):
        try:
            array = readers[other]()
        except UserError:  # it was only a guess that this one is meant
            continue
        if array.ndim in _DIMENSIONS[name] and array.dtype.kind in _KINDS[name == "labels"]:
            fitting[other] = array
    return fitting


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
