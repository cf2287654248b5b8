"""What checks every signature of the numerical packages while the tests run (see `conftest`).

jaxtyping's own decorator binds the arguments of each call and checks them twice, which took a third of the time of the
tests of the task and of the theory. Here beartype checks arguments and result once, inside one scope of axis names
where the signature has any.
"""

import inspect
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import wraps
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import jaxtyping
import torch
from beartype import BeartypeConf, beartype

check = beartype(
    conf=BeartypeConf(
        is_pep484_tower=True,  # an int is a float, as for mypy
        is_random=False,  # the first entry of a list, not a random one: a test fails always or never
    )
)
jaxtyped = jaxtyping.jaxtyped
SCOPE = jaxtyped("context")  # an axis has one size in it


def checked(decorated=None, *, typechecker):
    """A function or dataclass that checks its signature at each call, unless jaxtyping is off or torch compiles."""
    if decorated is None:
        return lambda decorated: checked(decorated, typechecker=typechecker)
    if inspect.isclass(decorated):
        if is_dataclass(decorated) and "__init__" in vars(decorated):
            decorated.__init__ = checked(decorated.__init__, typechecker=typechecker)
        return decorated
    hints = {name: resolved(hint, decorated.__globals__) for name, hint in decorated.__annotations__.items()}
    shapes = [shape for hint in hints.values() for shape in shapes_in(hint)]
    if inspect.isgeneratorfunction(decorated) or any("{" in shape for shape in shapes):  # "{n}" reads the argument n
        return jaxtyped(decorated, typechecker=typechecker)
    decorated.__annotations__ = hints
    with_checks = check(decorated)

    @wraps(decorated)
    def call(*args, **kwargs):
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable or torch.compiler.is_compiling():
            return decorated(*args, **kwargs)
        if not shapes:
            return with_checks(*args, **kwargs)
        with SCOPE:
            return with_checks(*args, **kwargs)

    return call


def resolved(hint, names: dict[str, object]):
    """The type that an annotation means; any type where its name is not known yet, as jaxtyping has it."""
    try:
        return get_type_hints(SimpleNamespace(__annotations__={"hint": hint}), names, include_extras=True)["hint"]
    except NameError:
        return Any


def shapes_in(hint) -> Iterator[str]:
    """The shapes that a hint names, at any depth."""
    if inspect.isclass(hint) and issubclass(hint, jaxtyping.AbstractArray):
        yield hint.dim_str
    for part in get_args(hint):
        yield from shapes_in(part)


jaxtyping.jaxtyped = checked  # the import hook decorates with this name
