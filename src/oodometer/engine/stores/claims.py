"""Claims: who is working on what, so that two runners on a store share the work.

A wrong claim costs double work and never a wrong result: what is saved under a key is the same
whoever saves it. So a claim need not be a lock, and nobody waits for one for ever.
"""

from __future__ import annotations

import json
import os
import platform
import re
import time
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from oodometer.engine.stores.base import File, Store

FOLDER = "claims"
_SECONDS_UNREADABLE = 5.0  # that a claim holds which nobody can read; it may be half written
_ended: set[str] = set()  # owners that this process was, and is no longer
_FILE = re.compile(r"(?P<name>[0-9A-Za-z_-]+)\.(?P<turn>\d+)")


@dataclass(frozen=True)
class Claim:
    """A piece of work and who has it."""

    name: str
    owner: str
    seconds: float  # that it holds without being renewed
    age: float  # seconds since it was renewed, by the clock on the wall
    turn: int  # how often it was taken over, and one
    beat: str  # another one whenever it is renewed

    @property
    def stale(self) -> bool:
        """Its owner is known to be gone, or has been silent for far longer than agreed."""
        return is_silent(self.owner, self.age, self.seconds)


def is_silent(owner: str, age: float, seconds: float) -> bool:
    """Whether an owner who should be heard every `seconds` is gone, or silent for far longer."""
    return owner_is_gone(owner) or age > max(10 * seconds, 600.0)


class Claims:
    """The claims of one store, as files ``claims/<name>.<turn>``.

    Who takes a claim over creates the file of the next turn, which only one can do. Clocks of
    machines are never compared: a claim is taken over when this object has itself seen it
    unrenewed for as long as it holds, by a clock that neither jumps nor is set; or at once, if its
    owner was a process of this machine that is no more.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[str, tuple[str, float]] = {}  # name -> beat, and since when

    def claim(self, name: str, owner: str, seconds: float) -> bool:
        """Claim a piece of work; False: another runner has it. One's own claim is renewed."""
        current = self._current(name)
        if current is not None and current.owner == owner:
            return self.renew(name, owner, seconds)
        if current is not None and not self._expired(current):
            return False
        turn = 1 if current is None else current.turn + 1
        if not self._store.create_file(_path(name, turn), _content(owner, seconds)):
            return False
        self._seen.pop(name, None)
        return True

    def renew(self, name: str, owner: str, seconds: float) -> bool:
        """Renew a claim while the work continues; False: another runner has taken it over."""
        current = self._current(name)
        if current is None:  # swept away while this process slept
            return self._store.create_file(_path(name, 1), _content(owner, seconds))
        if current.owner != owner:
            return False
        self._store.write_file(_path(name, current.turn), _content(owner, seconds))
        return True

    def release(self, name: str, owner: str) -> None:
        """Give a piece of work back, done or not; silent if somebody else has it by now."""
        current = self._current(name)
        if current is not None and current.owner == owner:
            self.remove(current)

    def remove(self, claim: Claim) -> None:
        """Remove a claim, whosever it is, and the turns before it."""
        for turn in sorted(self._turns(claim.name)):
            if turn <= claim.turn:
                self._store.remove_file(_path(claim.name, turn))

    def sweep(self) -> None:
        """Remove the claims of processes of this machine that have ended."""
        for claim in self.listed():
            if owner_is_gone(claim.owner):
                self.remove(claim)

    def listed(self) -> list[Claim]:
        """All claims, by name."""
        latest: dict[str, Claim] = {}
        for path, file in self._store.list_files(FOLDER).items():
            claim = self._read(path, file)
            if claim is not None and claim.turn > getattr(latest.get(claim.name), "turn", 0):
                latest[claim.name] = claim
        return [claim for _, claim in sorted(latest.items())]

    def _current(self, name: str) -> Claim | None:
        if _FILE.fullmatch(f"{name}.1") is None:
            raise ValueError(f"a claim's name is letters, digits, - and _, not {name!r}")
        turns = self._turns(name)
        for turn in sorted(turns, reverse=True):
            if (claim := self._read(f"{name}.{turn}", turns[turn])) is not None:
                return claim
        # Released while we looked: somebody's until the next look.
        return Claim(name, "unknown", 60.0, 0.0, max(turns), "") if turns else None

    def _turns(self, name: str) -> dict[int, File]:
        return {
            int(match["turn"]): file
            for path, file in self._store.list_files(FOLDER).items()
            if (match := _FILE.fullmatch(path)) and match["name"] == name
        }

    def _read(self, path: str, file: File) -> Claim | None:
        match = _FILE.fullmatch(path)
        if match is None:
            return None
        age = max(0.0, time.time() - file.changed)
        try:
            content = bytes(self._store.read_file(f"{FOLDER}/{path}"))
        except FileNotFoundError:  # released in the meantime
            return None
        try:
            claim = json.loads(content)
            owner, seconds, beat = str(claim["owner"]), float(claim["seconds"]), str(claim["beat"])
        except (ValueError, TypeError, KeyError, RecursionError):
            # Unreadable, so nobody's, but its turn is taken: it can be watched and taken over.
            owner, seconds, beat = "unknown", _SECONDS_UNREADABLE, content.hex()
        return Claim(match["name"], owner, seconds, age, int(match["turn"]), beat)

    def _expired(self, claim: Claim) -> bool:
        if owner_is_gone(claim.owner):
            return True
        now = time.monotonic()
        beat, since = self._seen.get(claim.name, (None, now))
        if beat != claim.beat:
            self._seen[claim.name] = claim.beat, now
            return False
        return now - since >= claim.seconds


class Owner(NamedTuple):
    """Who claims: a process, written as ``machine:process:started:nonce``."""

    machine: str  # its name and its last start
    process: str
    started: str  # in ticks of its machine; "0" if unknown
    nonce: str  # tells runners of one process apart

    @classmethod
    def parse(cls, text: str) -> Owner:
        """Read an owner's text; what it lacks is "?"."""
        return cls(*[*text.split(":", 3), *"????"][:4])

    def __str__(self) -> str:
        return ":".join(self)

    @property
    def host(self) -> str:
        """The name of the machine alone."""
        return self.machine.partition(".")[0]


def this_owner() -> str:
    """Name this process for claims."""
    process = os.getpid()
    nonce = uuid.uuid4().hex[:8]
    return str(Owner(this_machine(), f"{process}", _started(process) or "0", nonce))


def end_owner(owner: str) -> None:
    """Note that a runner of this process has ended, whose claims may still be in a store."""
    _ended.add(owner)


def owner_is_gone(owner: str) -> bool:
    """Whether the owner was a process of this machine that has ended; False if unknown."""
    if owner in _ended:
        return True
    machine, process, started, _ = Owner.parse(owner)
    if machine != this_machine() or not process.isdecimal() or not _system_tells():
        return False
    try:
        os.kill(int(process), 0)  # asks only: /proc may hide the processes of other users
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        pass  # it is there, but somebody else's
    return started != "0" and _started(int(process)) not in (started, None)


def _system_tells() -> bool:
    """Whether there is a /proc, and it numbers processes as this one sees them."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())  # noqa: PTH115 - not a path
    except OSError:
        return False


@cache
def this_machine() -> str:
    """A name of this machine since its last start, in which processes are numbered."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        # Containers share a kernel and have numbers of their own.
        space = os.readlink("/proc/self/ns/pid").strip("pid:[]")  # noqa: PTH115 - not a path
    except OSError:
        boot, space = f"{uuid.getnode():x}", "0"
    return f"{platform.node()}.{boot}.{space}".replace(":", "-")


def _started(process: int) -> str | None:
    """When a process was started, in ticks of its machine; "" if it has ended, None if unknown."""
    if not _system_tells():
        return None
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]


def _path(name: str, turn: int) -> str:
    return f"{FOLDER}/{name}.{turn}"


def _content(owner: str, seconds: float) -> bytes:
    return json.dumps({"owner": owner, "seconds": seconds, "beat": uuid.uuid4().hex}).encode()
