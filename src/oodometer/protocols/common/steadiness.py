"""What to say of classifiers whose outputs are not a function of the input alone."""

from __future__ import annotations

from collections.abc import Mapping

from oodometer.protocols.common.words import in_all

_WORDS = {
    "passes": "differ between two passes over the same inputs, by up to {gap:.2g}% of their range: "
    "they are random (such as dropout in eval mode), and so are all scores",
    "batches": "depend on the rest of the batch, by up to {gap:.2g}% of their range (such as "
    "batch statistics in eval mode): scores change with the batch size and the order of the data",
}


def unsteady_caveats(found: Mapping[str, Mapping[str, float]], runs: int) -> list[str]:
    """One sentence per kind of unsteadiness: run -> kind -> share of the range of the logits.

    >>> unsteady_caveats({"a": {}, "b": {"passes": 0.25}}, 9)[0][:67]
    'The outputs of the classifier in 1 of 9 runs differ between two pas'
    """
    caveats = []
    for kind, words in _WORDS.items():
        gaps = [gaps[kind] for gaps in found.values() if kind in gaps]
        if gaps:
            which = f" {in_all(len(gaps), runs, 'run')}" if runs > 1 else ""
            described = words.format(gap=100 * max(gaps))
            caveats.append(f"The outputs of the classifier{which} {described}.")
    return caveats
