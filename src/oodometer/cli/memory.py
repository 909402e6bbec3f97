"""Too little memory, in one sentence: what was being done, and how much was asked for."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parent.parent
# The beginnings of what libraries say, which have no exception of their own for it.
_SAID = re.compile(
    r"DefaultCPUAllocator|not enough memory|out of memory|can't allocate memory|"
    r"Cannot allocate memory|[Uu]nable to allocate|failed to map segment|can't start new thread|"
    r"(m|re)alloc of size \d+ failed"
)
_ASKED = re.compile(r"([\d.]+) ?(bytes|[KMGTPE]i?B)|(?:alloc of size) (\d+)")
_DOING = {  # what the innermost of our modules does, the first that fits
    "lab/training": "training",
    "lab/asking": "extracting outputs",
    "lab/search": "searching",
    "lab": "reading data",
    "detectors": "scoring",
    "scoring": "scoring",
    "saved": "reading saved outputs",
    "other_scores": "reading scores",
    "score_files": "reading scores",
    "tables": "reading the results table",
    "results": "reading the results table",
    "metrics": "analyzing",
    "stats": "analyzing",
    "protocols": "analyzing",
    "analysis": "analyzing",
    "comparison": "analyzing",
    "reports": "writing the report",
    "engine/stores": "reading the store",
    "engine": "running the study",
}


def lacks_memory(problem: BaseException) -> bool:
    """Whether an error means that there was too little memory."""
    if isinstance(problem, MemoryError):
        return True
    if isinstance(problem, OSError):
        return problem.errno == errno.ENOMEM
    spoken = isinstance(problem, RuntimeError | ValueError | ImportError)
    return spoken and _SAID.search(str(problem)) is not None


def describe_lack(problem: BaseException) -> str:
    """Say what was being done and how much was asked for."""
    amount = _amount(str(problem))
    asked = f", which asked for another {amount}" if amount else ""
    return f"Not enough memory while {_doing(problem)}{asked}; nothing that was stored is damaged."


def _amount(text: str) -> str:
    found = _ASKED.search(text)
    if found is None:
        return ""
    if found[2] and found[2] != "bytes":
        return f"{found[1].rstrip('.')} {found[2]}"
    size = float(found[1] or found[3])
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.3g} {unit}"


def _doing(problem: BaseException) -> str:
    for module in _modules(problem):
        for beginning, words in _DOING.items():
            if module == beginning or module.startswith(f"{beginning}/"):
                return words
    return "starting"


def _modules(problem: BaseException) -> Iterator[str]:
    """Our modules that an error went through, the innermost first."""
    files = []
    trace = problem.__traceback__
    while trace is not None:
        files.append(Path(trace.tb_frame.f_code.co_filename))
        trace = trace.tb_next
    for file in reversed(files):
        if file.is_relative_to(_ROOT):
            yield file.relative_to(_ROOT).with_suffix("").as_posix()
