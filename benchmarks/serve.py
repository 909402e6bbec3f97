"""Read the pages of a large store with many readers at a time while a study writes into it.

Usage: python benchmarks/serve.py [--artefacts 200000] [--readers 50] [--seconds 20] [--keep FOLDER]

Prints errors, latencies (median, 95%, largest), the load average, the processor time of the server
per request, and the memory of the server and of the process that keeps the index. A style sheet,
the same bytes every time, is read among the pages as a yardstick: on a busy machine, it is late,
too. Everything is on loopback, and in a temporary folder unless the store is to be kept.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from oodometer.engine.plan.keys import digest
from oodometer.engine.stores import FolderStore
from oodometer.engine.work.codecs import arrays_to_bytes

STUDIES, SETS, DETECTORS = 4, 9, 20
SAMPLES = 30
STATIC = "/static/site.css"
Answer = tuple[int, float, int, str]  # status, seconds, bytes, address


def write_study(
    store: FolderStore, name: str, artefacts: int, *, is_there: bool
) -> list[tuple[str, bytes]]:
    """A study with as many scores; the last 2% are returned instead, to be written later.

    If the store is there already, these are taken out of it.
    """
    rng = np.random.default_rng(0)
    runs = max(1, artefacts // (DETECTORS * (SETS + 1)))
    sets = ["letters", *(f"outliers {number}" for number in range(SETS))]
    detectors = [f"detector_{number}" for number in range(DETECTORS)]
    content: dict[str, object] = {
        "study": {"name": name, "base": {"data": "letters"}, "ood": ["uniform_noise"],
                  "factors": [{"field": "seed", "levels": list(range(runs))}]},
        "id": "letters",
        "levels": {f"seed={run}": {"seed": run} for run in range(runs)},
        "settings": {detector: [""] for detector in detectors},
        "same_samples": True,
        "trainings": {},
    }  # fmt: skip
    cells: dict[str, dict[str, dict[str, dict[str, dict[str, str]]]]] = {}
    later: list[tuple[str, bytes]] = []
    for run in range(runs):
        by_name = {d: {s: digest(name, run, d, s) for s in sets} for d in detectors}
        cells[f"seed={run}"] = {"score": {"scores": by_name}}
        for place, detector in enumerate(detectors):
            for number, dataset in enumerate(sets):
                shift = (0.5 + place / 10) * (number > 0)
                payload = arrays_to_bytes({"-": rng.normal(size=SAMPLES) + shift})
                key = by_name[detector][dataset]
                if run >= runs * 0.98:
                    later.append((key, payload))
                    for ending in (".json", ""):
                        (store.folder / "scores" / key[:2] / f"{key}{ending}").unlink(True)
                elif not is_there:
                    write_fast(store, key, payload)
    content["runs"] = cells
    store.save("plans", digest(content), json.dumps(content).encode(), {"study": name})
    return later


def write_fast(store: FolderStore, key: str, payload: bytes) -> None:
    """What `Store.save` leaves, without temporary files, which take longer."""
    folder = store.folder / "scores" / key[:2]
    folder.mkdir(parents=True, exist_ok=True)
    record: dict[str, object] = {
        "kind": "scores", "key": key, "bytes": len(payload), "saved": time.time(),
        "sha256": hashlib.sha256(payload).hexdigest(), "made_by": {}, "made_from": {"parents": []},
    }  # fmt: skip
    seal = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
    (folder / key).write_bytes(payload)
    (folder / f"{key}.json").write_text(json.dumps({**record, "seal": seal}))


def memory(process: int) -> float:
    """Megabytes that a process has in memory, without what it shares with others."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return sum(int(n) for n in re.findall(r"^Private_\w+: +(\d+)", text, re.MULTILINE)) / 1000


def processor_time(process: int) -> float:
    """Seconds that a process has computed."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children(process: int) -> Iterator[int]:
    """The processes that a process has started, and theirs."""
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in task.read_text().split():
            yield int(child)
            yield from children(int(child))


async def read(port: int, address: str) -> tuple[int, float, int]:
    """Status, seconds and bytes of one request."""
    started = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(
            f"GET {address} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
        )
        await writer.drain()
        answer = await asyncio.wait_for(reader.read(-1), 60)
    finally:
        writer.close()
    return int(answer[9:12]), time.perf_counter() - started, len(answer)


async def load(port: int, readers: int, seconds: float, addresses: list[str]) -> list[Answer]:
    """What many readers get who each ask for one page after another, with a second between."""
    found: list[Answer] = []
    until = time.monotonic() + seconds

    async def reader_of(number: int) -> None:
        rng = np.random.default_rng(number)
        await asyncio.sleep(float(rng.uniform(0, 1)))
        while time.monotonic() < until:
            address = addresses[int(rng.integers(len(addresses)))]
            try:
                found.append((*await read(port, address), address))
            except (OSError, TimeoutError, ValueError) as problem:
                found.append((0, 60.0, 0, f"{address}: {problem!r}"))
            await asyncio.sleep(float(rng.uniform(0.5, 1.5)))

    await asyncio.gather(*(reader_of(number) for number in range(readers)))
    return found


def tell(name: str, found: list[Answer]) -> None:
    """Print one line, and what went wrong."""
    times = sorted(part[1] for part in found)
    errors = [part for part in found if part[0] != 200]
    at = [1000 * times[min(len(times) - 1, int(share * len(times)))] for share in (0.5, 0.95, 1)]
    print(
        f"{name}: {len(found)} requests, {len(errors)} errors, median {at[0]:.0f} ms, "
        f"95% {at[1]:.0f} ms, largest {at[2]:.0f} ms; load average {os.getloadavg()[0]:.1f}"
    )
    static = [1000 * part[1] for part in found if part[3] == STATIC]
    if static:
        print(f"  yardstick {STATIC}: median {np.quantile(static, 0.5):.0f} ms, "
              f"95% {np.quantile(static, 0.95):.0f} ms of {len(static)}")  # fmt: skip
    by_page: dict[str, list[float]] = {}
    for _, seconds, _, address in found:
        by_page.setdefault(address, []).append(seconds)
    slowest = sorted(by_page.items(), key=lambda part: -np.quantile(part[1], 0.95))[:5]
    for address, own in slowest:
        median, most = 1000 * np.quantile(own, 0.5), 1000 * np.quantile(own, 0.95)
        print(f"  {address}: median {median:.0f} ms, 95% {most:.0f} ms of {len(own)}")
    for error in errors[:3]:
        print(f"  error: {error}")


def main() -> None:
    """Make the store, start the server, read while a study writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    parser.add_argument("--artefacts", type=int, default=200_000)
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--keep", type=Path, help="folder for the store and index, kept for later")
    parser.add_argument("--patience", type=float, default=900, help="seconds to wait for the index")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = given.keep or Path(folder)
        store = FolderStore(place / "large")
        is_there = store.exists()
        started = time.monotonic()
        later: list[tuple[str, bytes]] = []
        for number in range(STUDIES):
            own = given.artefacts // STUDIES
            later += write_study(store, f"study{number}", own, is_there=is_there)
        print(f"store with {given.artefacts} artefacts: {time.monotonic() - started:.0f} s")
        measure(store, later, given, place)


def measure(
    store: FolderStore, later: list[tuple[str, bytes]], given: argparse.Namespace, folder: Path
) -> None:
    """Serve a store and read it: while it is indexed, and while it is written."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, "-m", "oodometer", "serve", str(store.folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            address = re.search(r":(\d+)/", server.stdout.readline())
            assert address is not None
            port = int(address[1])
            pages = ["/", "/api/studies", STATIC, "/detectors"]
            asyncio.run(wait_until_up(port))
            tell("while it is indexed", asyncio.run(load(port, given.readers, 10, pages)))
            started = time.monotonic()
            done = asyncio.run(wait_for_index(port, given.patience, given.artefacts))
            print(f"index: {'complete' if done else 'not complete'} after "
                  f"{time.monotonic() - started:.0f} s more")  # fmt: skip
            pages += ["/leaderboard", "/leaderboard/fpr95/all", "/studies/large/study0",
                      "/detectors/detector_3", "/api/leaderboard?limit=50",
                      "/api/results?study=study1&limit=50", "/studies/large/study1",
                      "/runs/large/study0/" + run_slug()]  # fmt: skip
            for page in pages:
                asyncio.run(read(port, page))  # once, as the first reader does
            before = processor_time(server.pid)
            requests = asyncio.run(while_written(store, later, port, given, pages))
            spent = 1000 * (processor_time(server.pid) - before) / requests
            print(f"  processor time of the server: {spent:.1f} ms per request")
            print(f"memory: server {memory(server.pid):.0f} MB, its helpers "
                  f"{sum(memory(child) for child in children(server.pid)):.0f} MB")  # fmt: skip
        finally:
            server.terminate()


def run_slug() -> str:
    """A run as addresses name it."""
    from oodometer.web.index import slug_of

    return slug_of("seed=0")


async def wait_until_up(port: int) -> None:
    """Wait until the server answers."""
    for _ in range(300):
        try:
            await read(port, "/api/studies")
            return
        except OSError:
            await asyncio.sleep(0.2)


async def wait_for_index(port: int, patience: float, artefacts: int) -> bool:
    """Wait until all results that are there are in the index, and in its leaderboards."""
    runs = artefacts // STUDIES // (DETECTORS * (SETS + 1))
    results = math.ceil(0.98 * runs) * DETECTORS * SETS
    until = time.monotonic() + patience
    wanted = [f"/api/results?study=study{n}&limit=1&offset={results - 1}" for n in range(STUDIES)]
    wanted += [f"/api/leaderboard?study=study{number}&limit=1" for number in range(STUDIES)]
    while time.monotonic() < until and wanted:
        await asyncio.sleep(3)
        _, _, size = await read(port, wanted[0])
        if size > 800:  # bytes; an empty list with its headers is shorter
            wanted.pop(0)
    return not wanted


async def while_written(
    store: FolderStore,
    later: list[tuple[str, bytes]],
    port: int,
    given: argparse.Namespace,
    pages: list[str],
) -> int:
    """Read while scores arrive, as from a running study; how many requests there were."""

    def write() -> None:
        pause = given.seconds / max(1, len(later))
        for key, payload in later:
            write_fast(store, key, payload)
            time.sleep(pause)

    task = asyncio.get_running_loop().run_in_executor(None, write)
    found = await load(port, given.readers, given.seconds, pages)
    tell("while a study writes", found)
    await task
    return len(found)


if __name__ == "__main__":
    main()
