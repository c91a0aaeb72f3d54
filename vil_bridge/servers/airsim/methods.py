"""Methods of AirSim's RPC by name: arguments, defaults of those that a client leaves out, and rpclib's error texts."""

from __future__ import annotations

import inspect
import logging
import typing
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from vil_bridge.core.errors import VilBridgeError
from vil_bridge.servers.msgpack_rpc import Caller, RpcError

logger = logging.getLogger(__name__)

_Method = TypeVar("_Method", bound=Callable[..., Any])

_NAME: Final = "rpc_name"


class NoSuchVehicle(LookupError):  # noqa: N818 - absence is what it says
    """A vehicle, sensor or camera that does not exist; the text is AirSim's."""


def method(name: str) -> Callable[[_Method], _Method]:
    """Mark a method of a class as one of the RPC."""

    def mark(function: _Method) -> _Method:
        setattr(function, _NAME, name)
        return function

    return mark


@dataclass(frozen=True, slots=True)
class _Bound:
    """A method: its function, the types of its arguments, and the values of those that may be left out."""

    function: Callable[..., Awaitable[object]]
    types: tuple[Any, ...]
    defaults: tuple[object, ...]

    @property
    def required(self) -> int:
        """Arguments that every client sends."""
        return len(self.types) - len(self.defaults)


class MethodTable:
    """Methods of several objects, by their names in the RPC.

    Clients of different versions send different numbers of trailing arguments: those that are absent have their
    defaults, surplus ones are ignored.

    Args:
        objects: whose marked methods make the table.
        accepted: names without an effect here: how many arguments they want, and what they answer.
        missing: names that AirSim has and this server has not, and why; they answer with that text.

    Attributes:
        unanswered: calls of AirSim's methods that have no effect here or are missing, by name.
    """

    def __init__(
        self, objects: Iterable[object], accepted: Mapping[str, tuple[int, object]], missing: Mapping[str, str]
    ) -> None:
        self.unanswered: Counter[str] = Counter()
        self._accepted = accepted
        self._missing = missing
        self._methods: dict[str, _Bound] = {}
        for owner in objects:
            for _, function in inspect.getmembers(owner, inspect.ismethod):
                if hasattr(function, _NAME):
                    self._methods[getattr(function, _NAME)] = _bound(function)

    @property
    def names(self) -> list[str]:
        """Names that answer, sorted."""
        return sorted({*self._methods, *self._accepted})

    async def call(self, _caller: Caller, name: str, arguments: Sequence[Any]) -> object:
        """Run a method; the same for every caller.

        Raises:
            RpcError: there is no such method, the arguments do not fit, or it failed.
        """
        if name in self._accepted:
            wanted, answer = self._accepted[name]
            _check_count(name, arguments, wanted, wanted)
            self._note(name, "it has no effect here")
            return answer
        found = self._methods.get(name)
        if found is None:
            raise RpcError(self._absent(name, len(arguments)))
        _check_count(name, arguments, found.required, len(found.types))
        try:
            given = [msgspec.convert(a, t, strict=False) for a, t in zip(arguments, found.types, strict=False)]
            return await found.function(*given, *found.defaults[len(given) - found.required :])
        except (msgspec.ValidationError, VilBridgeError, LookupError, ValueError) as exc:
            raise RpcError(
                f"rpclib: function '{name}' (called with {len(arguments)} arg(s)) threw an exception. "
                f"The exception contained this information: {_text(exc)}."
            ) from exc

    def _note(self, name: str, reason: str) -> None:
        """Count a call that does not do what AirSim does, and log the first one."""
        self.unanswered[name] += 1
        if self.unanswered[name] == 1:
            logger.warning("a program called %s: %s", name, reason)

    def _absent(self, name: str, count: int) -> str:
        if reason := self._missing.get(name):
            self._note(name, reason)
            return (
                f"rpclib: function '{name}' (called with {count} arg(s)) threw an exception. "
                f"The exception contained this information: {reason}."
            )
        return f"rpclib: server could not find function '{name[:200]}' with argument count {count}."


def _check_count(name: str, arguments: Sequence[Any], required: int, most: int) -> None:
    """Raise RpcError where a call has too few arguments."""
    if len(arguments) < required:
        raise RpcError(
            f"rpclib: Function '{name}' was called with an invalid number of arguments. "
            f"Expected: {most}, got: {len(arguments)}"
        )


def _bound(function: Callable[..., Any]) -> _Bound:
    parameters = list(inspect.signature(function).parameters.values())
    hints = typing.get_type_hints(function)
    defaults = tuple(p.default for p in parameters if p.default is not inspect.Parameter.empty)
    return _Bound(function, tuple(hints[p.name] for p in parameters), defaults)


def _text(exc: Exception) -> str:
    """Return the text of an error without the quotes that KeyError adds."""
    return str(exc.args[0] if isinstance(exc, LookupError) and exc.args else exc).rstrip(".")
