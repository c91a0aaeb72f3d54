"""Commands to simulated vehicles on the stream's control channel (docs/guides/simulated.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from vil_bridge.core.vehicle_commands import VEHICLE_DESK, VehicleCommand
from vil_bridge.outputs.stream.commands import CommandHandler

__all__ = ["vehicle_commands"]


class _Wish(msgspec.Struct, forbid_unknown_fields=True):
    subject: str


def vehicle_commands() -> Mapping[str, CommandHandler]:
    """``vehicle_command``, ``vehicle_state`` and ``vehicles``, as the control channel's command messages name them."""
    return {"vehicle_command": _command, "vehicle_state": _state, "vehicles": _names}


def _command(args: dict[str, Any]) -> None:
    """Arguments as :class:`VehicleCommand` has them."""
    try:
        command = msgspec.convert(args, VehicleCommand)
    except msgspec.ValidationError as exc:
        raise ValueError(str(exc)) from None
    unknown = sorted(args.keys() - set(VehicleCommand.__dataclass_fields__))
    if unknown:
        raise ValueError(f"a command has no {unknown[0]!r}; known: {', '.join(VehicleCommand.__dataclass_fields__)}")
    try:
        VEHICLE_DESK.command(command)
    except KeyError:
        raise _unknown(command.subject) from None


def _state(args: dict[str, Any]) -> Any:
    try:
        subject = msgspec.convert(args, _Wish).subject
        return msgspec.to_builtins(VEHICLE_DESK.state(subject))
    except msgspec.ValidationError as exc:
        raise ValueError(str(exc)) from None
    except KeyError as exc:
        raise _unknown(str(exc.args[0])) from None


def _names(_args: dict[str, Any]) -> list[str]:
    return VEHICLE_DESK.names()


def _unknown(subject: str) -> ValueError:
    known = ", ".join(VEHICLE_DESK.names()[:20]) or "none"
    return ValueError(f"no simulated vehicle is named {subject!r}; known: {known}")
