"""How long a user waits: for --help, for the first demo, and for the second."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time


def seconds(*arguments: str) -> float:
    """Run the command line once and time it."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "oodometer", *arguments]
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def main() -> None:
    """Print the waiting times beside what importing PyTorch alone costs."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    torch = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        rows = {
            "import torch, for comparison": torch,
            "oodometer --help": min(seconds("--help") for _ in range(3)),
            "oodometer demo, first time": seconds("demo", "--out", folder),
            "oodometer demo, second time": min(seconds("demo", "--out", folder) for _ in range(3)),
        }
    for name, spent in rows.items():
        print(f"{name:32} {spent:7.2f} s {spent / torch:7.2f} x")


if __name__ == "__main__":
    main()
