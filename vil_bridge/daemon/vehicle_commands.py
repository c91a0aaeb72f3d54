"""Commands to simulated vehicles on the stream's control channel (docs/guides/simulated.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from vil_bridge.interfaces.vehicle_commands import VehicleCommand, VehicleCommandBus
from vil_bridge.outputs.stream.commands import CommandHandler

_T = TypeVar("_T")


class _StateRequest(msgspec.Struct, forbid_unknown_fields=True):
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommandRequest(VehicleCommand):
    subject: str


def vehicle_commands(vehicles: VehicleCommandBus) -> Mapping[str, CommandHandler]:
    """Return the handlers of ``vehicle_command``, ``vehicle_state`` and ``vehicles`` for one
    bridge's vehicles.
    """

    def command(args: dict[str, Any]) -> None:
        asked = _converted(args, _CommandRequest)
        known = ("subject", *VehicleCommand.__dataclass_fields__)
        unknown = sorted(args.keys() - set(known))
        if unknown:
            raise ValueError(f"a command has no {unknown[0]!r}; known: {', '.join(known)}")
        try:
            vehicles.send(
                asked.subject, VehicleCommand(asked.action, asked.mode, asked.values, asked.t_ns)
            )
        except KeyError:
            raise _unknown(asked.subject, vehicles) from None

    def state(args: dict[str, Any]) -> Any:
        subject = _converted(args, _StateRequest).subject
        try:
            return msgspec.to_builtins(vehicles.of(subject).state(subject))
        except KeyError:
            raise _unknown(subject, vehicles) from None

    return {
        "vehicle_command": command,
        "vehicle_state": state,
        "vehicles": lambda _args: vehicles.names(),
    }


def _converted(args: dict[str, Any], kind: type[_T]) -> _T:
    """Convert arguments. Raises ValueError: they are not of that kind."""
    try:
        return msgspec.convert(args, kind)
    except msgspec.ValidationError as exc:
        raise ValueError(str(exc)) from None


def _unknown(subject: str, vehicles: VehicleCommandBus) -> ValueError:
    known = ", ".join(vehicles.names()[:20]) or "none"
    return ValueError(f"no simulated vehicle is named {subject!r}; known: {known}")
