"""Find artefacts by the beginning of their digest, and say what their parents are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from oodometer.engine.stores import KINDS, DamagedError, Kind, Store
from oodometer.errors import UserError


def find_artefacts(store: Store, start: str) -> list[tuple[Kind, str]]:
    """All artefacts of the one digest that begins so; a model and its failure share theirs."""
    wanted = start.strip().lower()
    if not wanted:
        raise UserError("A digest is required, or a unique prefix of one.")
    found = [(kind, key) for kind in KINDS for key in _keys(store, kind, wanted)]
    keys = sorted({key for _, key in found})
    if len(keys) > 1 and wanted not in keys:
        some = ", ".join(key[: len(wanted) + 6] for key in keys[:4])
        more = ", ..." if len(keys) > 4 else ""
        raise UserError(
            f"Digest '{start}' is not unique: {len(keys)} results begin with it ({some}{more})."
        )
    if not keys:
        close = _nearest(store, wanted)
        hint = f" The nearest is '{close}'." if close else ""
        raise UserError(f"No result in store '{store.address}' has digest '{start}'.{hint}")
    return [(kind, key) for kind, key in found if key == (wanted if wanted in keys else keys[0])]


def parents_of(store: Store, record: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    """Kind and digest of each parent, and in words what it is of."""
    made_from = record.get("made_from")
    parents = made_from.get("parents") if isinstance(made_from, Mapping) else None
    for parent in parents if isinstance(parents, list) else ():
        kinds = [kind for kind in KINDS if kind != "failures" and store.has(kind, str(parent))]
        if not kinds:
            yield "(no longer kept)", str(parent), ""
        for kind in kinds:
            yield kind, str(parent), _words(store, kind, str(parent))


def _words(store: Store, kind: Kind, key: str) -> str:
    try:
        about = store.record(kind, key)["made_from"]
    except DamagedError:
        return "(damaged)"
    if not isinstance(about, Mapping):
        return ""
    named = ("run", "checkpoint", "probe", "detector", "data set")
    words = [f"{name} {about[name]}" for name in named if about.get(name)]
    return f"({', '.join(words)})" if words else ""


def _keys(store: Store, kind: Kind, start: str) -> list[str]:
    if len(start) < 2:
        return [key for key in store.keys(kind) if key.startswith(start)]
    names = (path.rpartition("/")[2] for path in store.list_files(f"{kind}/{start[:2]}"))
    found = sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))
    return [key for key in found if key.startswith(start)]


def _nearest(store: Store, wanted: str) -> str:
    """The digest that agrees with this one in most places, if it does in most."""
    best, agreed = "", len(wanted) // 2
    for kind in KINDS:
        for key in store.keys(kind):
            same = sum(map(str.__eq__, key, wanted))
            if same > agreed:
                best, agreed = key, same
    return best
