"""Run again only the part of a network after a point, for any network."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from torch import Tensor, nn

from oodometer.lab.asking.dropping import DropoutCalls


@contextmanager
def replaced(module: nn.Module, forward: Callable[..., object]) -> Iterator[None]:
    """Let a module compute something else, as long as the block lasts."""
    own = module.__dict__.get("forward")  # some tools wrap a module by setting this
    module.__dict__["forward"] = forward
    try:
        yield
    finally:
        if own is None:
            del module.__dict__["forward"]
        else:
            module.__dict__["forward"] = own


@dataclass
class _Running:
    """A call of a module that has not returned, and what the modules that it called gave."""

    module: nn.Module
    outputs: list[tuple[nn.Module, object]]  # of a chain, the last one only
    done: int = 0  # how many calls have returned

    @property
    def is_chain(self) -> bool:
        """Whether it does nothing but hand on from one module to the next."""
        return type(self.module).forward is nn.Sequential.forward

    def returned(self, module: nn.Module, output: object) -> None:
        """Note that a module which this one called has returned."""
        if self.is_chain:
            self.outputs.clear()
        self.outputs.append((module, output))
        self.done += 1


class Prefix:
    """What a network computed before any of the `stops`, or dropout as a function, was called.

    While `recording`, a forward pass leaves the outputs of all modules that had returned by then,
    the largest ones only. While `replaying`, a forward pass costs what lies behind: chains
    (nn.Sequential) continue where they were, and in any other module, those that had returned
    repeat their outputs.

    This is safe if all modules that had not returned are chains (`certain`). In any other forward
    method, something may change a tensor in place, or depend on more than its modules: compare one
    replay with the true pass.
    """

    def __init__(self, model: nn.Module, stops: Collection[nn.Module]) -> None:
        self._model, self._stops = model, set(stops)
        self._running: list[_Running] = []
        self._at_stop: list[_Running] = []
        self.met: set[nn.Module] = set()  # those of the stops that were called
        self._stopped = False

    @property
    def possible(self) -> bool:
        """Whether a stop was met, and nothing but tensors would have to be repeated."""
        return bool(self._at_stop) and all(
            isinstance(output, Tensor) for frame in self._at_stop for _, output in frame.outputs
        )

    @property
    def certain(self) -> bool:
        """Whether a replay gives what the true pass gives, whatever the modules do."""
        return self.possible and all(frame.is_chain for frame in self._at_stop)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what one forward pass inside the block computes before the stop."""
        with ExitStack() as stack:
            for module in self._model.modules():
                stack.callback(module.register_forward_pre_hook(self._enter).remove)
                stack.callback(module.register_forward_hook(self._leave).remove)
            stack.enter_context(DropoutCalls(self._stop))
            yield

    def _stop(self, *_: object) -> None:
        if not self._stopped:
            # From here on, somebody may write into what was given.
            self._at_stop = [
                replace(frame, outputs=[(made_by, _own(given)) for made_by, given in frame.outputs])
                for frame in self._running
            ]
        self._stopped = True

    def _enter(self, module: nn.Module, inputs: object) -> None:
        if module in self._stops:
            self._stop()
            self.met.add(module)
        self._running.append(_Running(module, []))

    def _leave(self, module: nn.Module, inputs: object, output: object) -> None:
        self._running.pop()
        if self._running and not self._stopped:
            self._running[-1].returned(module, output)

    @contextmanager
    def replaying(self) -> Iterator[None]:
        """Let a forward pass inside the block begin at the stop."""
        answers: dict[nn.Module, list[Callable[..., object]]] = {}
        for frame in self._at_stop:
            if frame.is_chain:
                answers.setdefault(frame.module, []).append(_continued(frame))
            else:
                for module, output in frame.outputs:
                    answers.setdefault(module, []).append(_repeated(output))
        with ExitStack() as stack:
            for module, known in answers.items():
                stack.enter_context(replaced(module, _in_turn(known, module.forward)))
            yield


def _own(output: object) -> object:
    return output.detach().clone() if isinstance(output, Tensor) else output


def _continued(frame: _Running) -> Callable[..., object]:
    """Run what a chain has not run yet."""

    def forward(x: object) -> object:
        for _, output in frame.outputs:
            x = _own(output)
        assert isinstance(frame.module, nn.Sequential)
        for module in list(frame.module)[frame.done :]:
            x = module(x)
        return x

    return forward


def _repeated(output: object) -> Callable[..., object]:
    return lambda *inputs, **named: _own(output)


def _in_turn(
    known: list[Callable[..., object]], otherwise: Callable[..., object]
) -> Callable[..., object]:
    """Answer the first calls by what is known, one after the other; compute all later ones."""
    left = iter(known)
    return lambda *inputs, **named: next(left, otherwise)(*inputs, **named)
