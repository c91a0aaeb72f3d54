"""Methods of AirSim's RPC by name.

Arguments, defaults of those that a client leaves out, and rpclib's error texts.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import typing
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from vil_bridge.core.errors import VilBridgeError
from vil_bridge.core.text import printable_lines
from vil_bridge.core.types import FloatArray
from vil_bridge.runtime.access_tokens import Role
from vil_simulation.airsim.argument_errors import problem_of
from vil_simulation.airsim.msgpack_rpc import Caller, RpcError
from vil_simulation.airsim.needed_roles import needed_role

logger = logging.getLogger(__name__)

_Method = TypeVar("_Method", bound=Callable[..., Any])

_NAME: Final = "rpc_name"
_EFFECT: Final = "rpc_effect"
_LONGEST_NAME: Final = 80
_AT_ONCE: Final = 256
"""Elements of an argument that are converted without other clients' turns between."""
_READ_ONLY: Final = (
    "it changes something, and programs may only read here. Set `airsim: {role: "
    "control}` in the bridge's "
    "configuration to let every program that reaches this port change it"
)
_FAILURES: Final = (VilBridgeError, LookupError, ValueError)
"""Exceptions of a method whose texts are for its caller."""


def shown(name: str) -> str:
    """Return a name as an error shows it: at most 80 characters, without control characters."""
    return printable_lines(name[:_LONGEST_NAME]).replace("\n", " ")


class NoSuchVehicle(LookupError):  # noqa: N818 - absence is what it says
    """A vehicle, sensor or camera that does not exist; the text is AirSim's."""


def method(name: str, *, effect: bool = True) -> Callable[[_Method], _Method]:
    """Mark a method of a class as one of the RPC; without an effect its first call is logged.

    A plain method is answered at once and must not wait; a coroutine function is a task.
    """

    def mark(function: _Method) -> _Method:
        setattr(function, _NAME, name)
        setattr(function, _EFFECT, effect)
        return function

    return mark


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """Mark of an argument that is a list of structs on the wire and an array for its method.

    ``Annotated[..]``.

    Attributes:
        wire: type of the list. row: returns the numbers of one. width: how many they are.
    """

    wire: Any
    row: Callable[[Any], Sequence[float]]
    width: int

    def array(self, elements: Sequence[Any]) -> FloatArray:
        """Return rows of elements, (n, width)."""
        return np.array([self.row(element) for element in elements]).reshape(-1, self.width)


@dataclass(frozen=True, slots=True)
class _Bound:
    """A method: its function, its arguments' names and types, and the values of those that may be
    left out.

    Attributes:
        waits: it is a coroutine function.
    """

    function: Callable[..., object]
    names: tuple[str, ...]
    types: tuple[Any, ...]
    defaults: tuple[object, ...]
    effect: bool
    waits: bool

    @property
    def required(self) -> int:
        """Arguments that every client sends."""
        return len(self.types) - len(self.defaults)

    def is_large(self, arguments: Sequence[Any]) -> bool:
        """Return True where an argument is to be converted in turns."""
        return any(
            isinstance(argument, list) and len(argument) > _AT_ONCE for argument in arguments
        )

    def converted(self, arguments: Sequence[Any]) -> list[Any]:
        """Return values of the arguments' types.

        Raises ValueError: one has another type or is out of bounds.
        """
        numbered = enumerate(zip(self.names, self.types, arguments, strict=False), 1)
        return [
            _converted(number, name, cls, argument) for number, (name, cls, argument) in numbered
        ]

    def with_defaults(self, given: list[Any]) -> list[Any]:
        """Return arguments with the values of those that were left out."""
        return [*given, *self.defaults[len(given) - self.required :]]

    async def converted_in_turns(self, arguments: Sequence[Any]) -> list[Any]:
        """Return values of the arguments' types; long lists are converted in pieces.

        Raises ValueError: see above.
        """
        given = []
        for number, (name, cls, argument) in enumerate(
            zip(self.names, self.types, arguments, strict=False), 1
        ):
            if not isinstance(argument, list) or len(argument) <= _AT_ONCE:
                given.append(_converted(number, name, cls, argument))
                continue
            whole = _empty(cls, len(argument))
            for begin in range(0, len(argument), _AT_ONCE):
                end = begin + _AT_ONCE
                whole[begin:end] = _converted(number, name, cls, argument[begin:end], begin)
                await asyncio.sleep(0)
            given.append(whole)
        return given


def _empty(cls: Any, length: int) -> Any:
    """Return what the pieces of a long argument are put into: an array, or a list."""
    mark = _mark_of(cls)
    return [] if mark is None else np.empty((length, mark.width))


def _mark_of(cls: Any) -> ArrayOf | None:
    mark = getattr(cls, "__metadata__", (None,))[0]
    return mark if isinstance(mark, ArrayOf) else None


def _converted(number: int, name: str, cls: Any, argument: Any, begin: int = 0) -> Any:
    """Return an argument, or a piece of it from an element on, as its type.

    Raises ValueError: it is another.
    """
    mark = _mark_of(cls)
    wire = cls if mark is None else mark.wire
    try:
        given = msgspec.convert(argument, wire, strict=False)
    except (msgspec.ValidationError, OverflowError) as exc:
        raise ValueError(
            f"argument {number} {problem_of(name, wire, argument, exc, begin)}"
        ) from None
    return given if mark is None else mark.array(given)


class MethodTable:
    """Methods of several objects, by their names in the RPC.

    Clients of different versions send different numbers of trailing arguments: those that are
    absent have their defaults, surplus ones are ignored.

    Args:
        objects: whose marked methods make the table.
        missing: names that AirSim has and this server has not, and why; they answer with that text.
        role: of every caller: the protocol knows no keys.

    Attributes:
        unanswered: calls of AirSim's methods that have no effect here or are missing, by name.
    """

    def __init__(
        self, objects: Iterable[object], missing: Mapping[str, str], role: Role = Role.CONTROL
    ) -> None:
        self.unanswered: Counter[str] = Counter()
        self._missing = missing
        self._role = role
        self._methods: dict[str, _Bound] = {}
        for owner in objects:
            for _, function in inspect.getmembers(owner, inspect.ismethod):
                if hasattr(function, _NAME):
                    self._methods[getattr(function, _NAME)] = _bound(function)

    @property
    def names(self) -> list[str]:
        """Names that answer, sorted."""
        return sorted(self._methods)

    def call(self, _caller: Caller, name: str, arguments: Sequence[Any]) -> object:
        """Run a method, the same for every caller.

        Returns its result, or a coroutine that does where it waits.

        Raises:
            RpcError: there is no such method, the role does not cover it, the arguments do not fit,
                or it failed.
        """
        found = self._methods.get(name)
        if found is None:
            raise RpcError(self._absent(name, len(arguments)))
        if not self._role.covers(needed_role(name)):
            raise RpcError(_failure(name, len(arguments), _READ_ONLY))
        _check_count(name, arguments, found.required, len(found.types))
        if not found.effect:
            self._note(name, "it has no effect here")
        if found.is_large(arguments):
            return _finished(name, len(arguments), partial(_called_in_turns, found, arguments))
        try:
            given = found.with_defaults(found.converted(arguments))
            if found.waits:
                return _finished(name, len(arguments), partial(found.function, *given))
            return found.function(*given)
        except _FAILURES as exc:
            raise RpcError(_failure(name, len(arguments), _text(exc))) from exc

    def _note(self, name: str, reason: str) -> None:
        """Count a call that does not do what AirSim does, and log the first one."""
        self.unanswered[name] += 1
        if self.unanswered[name] == 1:
            logger.warning("a program called %s: %s", name, reason)

    def _absent(self, name: str, count: int) -> str:
        if reason := self._missing.get(name):
            self._note(name, reason)
            return _failure(name, count, reason)
        return f"rpclib: server could not find function '{name[:200]}' with argument count {count}."


async def _called_in_turns(found: _Bound, arguments: Sequence[Any]) -> object:
    """Run a method whose arguments are large and return its result."""
    given = found.with_defaults(await found.converted_in_turns(arguments))
    result = found.function(*given)
    return await result if isinstance(result, Coroutine) else result


async def _finished(name: str, count: int, begin: Callable[[], Any]) -> object:
    """Run a method that waits and return its result. Raises RpcError: it failed."""
    try:
        return await begin()
    except _FAILURES as exc:
        raise RpcError(_failure(name, count, _text(exc))) from exc


def _failure(name: str, count: int, reason: str) -> str:
    return (
        f"rpclib: function '{name}' (called with {count} arg(s)) threw an exception. "
        f"The exception contained this information: {reason}."
    )


def _check_count(name: str, arguments: Sequence[Any], required: int, most: int) -> None:
    """Raise RpcError where a call has too few arguments."""
    if len(arguments) < required:
        raise RpcError(
            f"rpclib: Function '{name}' was called with an invalid number of arguments. "
            f"Expected: {most}, got: {len(arguments)}"
        )


def _bound(function: Callable[..., Any]) -> _Bound:
    parameters = list(inspect.signature(function).parameters.values())
    hints = typing.get_type_hints(function, include_extras=True)
    defaults = tuple(p.default for p in parameters if p.default is not inspect.Parameter.empty)
    names = tuple(p.name for p in parameters)
    types = tuple(hints[name] for name in names)
    waits = inspect.iscoroutinefunction(function)
    return _Bound(function, names, types, defaults, getattr(function, _EFFECT), waits)


def _text(exc: Exception) -> str:
    """Return the text of an error without the quotes that KeyError adds."""
    return str(exc.args[0] if isinstance(exc, LookupError) and exc.args else exc).rstrip(".")
