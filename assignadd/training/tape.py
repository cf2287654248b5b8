"""A computation written down once and played back: on a CPU what a CUDA graph is on a GPU.

A training step of one model is some 130 kernels on tensors of fixed sizes. Finding its views, making room for its
results and running the Python in between takes as long as a tenth of the arithmetic. A tape keeps all tensors where they
first lay and calls the kernels alone, in the same order on the same numbers: the outcome is the same bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

T = TypeVar("T")


class Tape(TorchDispatchMode, Generic[T]):
    """Runs `do` and remembers what it did to which tensors; what it made without reading a tensor stays as it is.

    `do` may branch on a tensor's truth, which playing back looks at again; it must not read other numbers out of one (which
    is refused, but for `tolist` and `numpy`: those no mode gets to see).
    """

    def __init__(self, do: Callable[[], T]):
        super().__init__()
        self._calls: list[Callable[[], Any]] = []
        self._constants: dict[int, Tensor] = {}  # by where they lie, and kept, so that nothing else comes to lie there
        with self:
            self.result = do()

    def play(self) -> bool:
        """Does it again, from what the tensors hold now; False where a branch falls out differently, and stops there."""
        return all(call() is not False for call in self._calls)

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if name == "lift_fresh" or not list(_tensors(args)):
            if not name.startswith("empty"):
                self._constants |= {t.untyped_storage().data_ptr(): t for t in _tensors([result])}
        elif not func.is_view:
            if any(t.untyped_storage().data_ptr() in self._constants for t in _written(func, args, kwargs)):
                raise NotImplementedError(
                    f"a tape cannot play back {func} on a tensor that was made from numbers alone"
                )
            self._calls.append(_again(func, args, kwargs, result))
        return result


def _written(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    """The tensors that an operation writes into."""
    named = dict(zip((a.name for a in func._schema.arguments), args, strict=False)) | kwargs
    return _tensors(
        [named.get(a.name) for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    )


def _tensors(args: Any) -> Iterator[Tensor]:
    for a in args:
        if isinstance(a, Tensor):
            yield a
        elif isinstance(a, (list, tuple)):
            yield from _tensors(a)


def _again(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Callable[[], Any]:
    """The same operation again, its result where it first lay. What torch and Tensor offer is called twice as fast as `func`."""
    name = func.overloadpacket.__name__
    if name == "_local_scalar_dense":
        if not isinstance(result, bool):
            raise NotImplementedError(
                "a tape cannot play back what depends on a number read out of a tensor, only branches"
            )
        return partial(_falls_out, args[0], result)
    if func._schema.is_mutable:
        in_place = name.endswith("_") and hasattr(torch.Tensor, name)
        return partial(getattr(torch.Tensor if in_place else torch, name, func), *args, **kwargs)
    if name in ("new_zeros", "zeros_like"):
        return result.zero_
    if name in ("clone", "_to_copy"):
        return partial(result.copy_, args[0])
    for overload in func.overloadpacket.overloads() if isinstance(result, Tensor) else ():
        variant = getattr(func.overloadpacket, overload)
        target = variant._schema.arguments[-1]
        if target.is_out:
            return partial(getattr(torch, name, variant), *args, **kwargs, **{target.name: result})
    raise NotImplementedError(f"a tape cannot play back {func}: it has no variant that writes into one given tensor")


def _falls_out(condition: Tensor, before: bool) -> bool:
    return bool(condition) is before
