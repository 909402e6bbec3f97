"""The global random states of this process: set them for a while, see who changes them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Set every global random state for a while; put the caller's back afterwards."""
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        random.setstate(before[2])


def random_states() -> dict[str, bytes]:
    """Every global random state, by the library that it belongs to."""
    legacy = repr(np.random.get_state(legacy=False)).encode()  # noqa: NPY002
    own = torch.get_rng_state().numpy().tobytes()
    return {"torch": own, "numpy": legacy, "random": repr(random.getstate()).encode()}
