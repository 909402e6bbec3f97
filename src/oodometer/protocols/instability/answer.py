"""The answer about instability in the words of somebody who was asked: what changes the order?"""

from __future__ import annotations

from collections.abc import Sequence

from oodometer.protocols.common.comparisons import NO_REPEATS
from oodometer.protocols.common.words import count, listing
from oodometer.protocols.instability.claims import FactorEffect, Move, OrderChange, on_mean

_FACTORS = 3  # that the answer speaks of; the claims are about all
_STEADY = 0.5  # the accuracy is steadier than a detector if it moves by less than this share


def answer(effects: Sequence[FactorEffect]) -> str:
    """Say what changes the order, then what may, then how far detectors are moved."""
    if not any(effect.move.farthest for effect in effects):
        varied = listing([f"another {effect.factor}" for effect in effects], "or")
        return f"{varied[0].upper()}{varied[1:]} moves no detector here."
    told = sorted(effects, key=lambda effect: _importance(effect.order))[:_FACTORS]
    sentences = [_order(effect) for effect in told]
    move = max((effect.move for effect in effects), key=lambda move: move.farthest)
    return " ".join([*sentences, *_moved(move)])


def _importance(order: OrderChange) -> int:
    return ["flips", "holds", "undecided"].index(order.of_winner[0])


def _order(effect: FactorEffect) -> str:
    """Whether the best detector changes, and how many pairs change places."""
    factor, order = effect.factor, effect.order
    verdict, doubt = order.of_winner
    most = max(order.flips.values())
    pairs = f"up to {most} of {count(order.pairs, 'pair')} of detectors"
    if verdict == "flips":
        text = f"Another {factor} changes the best detector{order.where}"
        return f"{text}; {pairs} change places." if order.pairs > 1 else f"{text}."
    if order.winners:
        why = "but not significantly" + " on any of them" * (len(order.parts) > 1)
        why = "which may be chance: there are too few repeated runs" if doubt == NO_REPEATS else why
        return f"The best detector changes with the {factor}{order.where}, {why}."
    best = f"leaves {order.best} the best" if order.best else "leaves the best detector the best"
    text = f"Another {factor} {best}{on_mean(order.parts)}"
    if verdict == "undecided":
        few = f", but {order.fewest.tried} are too few to say that it always does"
        return f"{text} here{doubt or few}."
    return f"{text}, but reverses {pairs}." if order.of_pairs[0] == "flips" else f"{text}."


def _moved(move: Move) -> list[str]:
    """How far the most moved detector is moved, beside the accuracy."""
    if not move.farthest:
        return []
    text = f"The {move.part.factor} moves {move.moved} by {move.by}"
    if move.part.accuracy is not None:
        own = move.part.largest_move(move.part.accuracy)
        is_steady = move.part.is_share and own < _STEADY * move.farthest
        text += (
            f", but the accuracy by only {move.accuracy}"
            if is_steady
            else f", and the accuracy by {move.accuracy}"
        )
    return [f"{text}."]
