"""Values of commands in the order of their mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vil_bridge.core.errors import ValueRefused
from vil_bridge.interfaces.vehicle_commands import CommandField
from vil_simulation.vehicles.physical_ranges import command_range


def command_values(
    given: Sequence[float] | Mapping[str, float | Sequence[float]],
    fields: Sequence[CommandField],
    mode: str,
) -> tuple[float, ...]:
    """Return values in the mode's order.

    Raises:
        ValueRefused: a field is unknown, absent or of another size, or a value is beyond the range
            of its kind.
    """
    wanted = ", ".join(f"{f.name} ({f.size}, {f.unit})" for f in fields)
    if isinstance(given, Mapping):
        if set(given) != {f.name for f in fields}:
            raise ValueRefused(f"mode {mode!r} takes {wanted}; got {', '.join(given) or 'nothing'}")
        parts = [given[f.name] for f in fields]
        rows = [[p] if isinstance(p, int | float) else list(p) for p in parts]
        for f, row in zip(fields, rows, strict=True):
            if len(row) != f.size:
                raise ValueRefused(
                    f"{f.name} of mode {mode!r} has {f.size} numbers ({f.unit}), not {len(row)}"
                )
        values = tuple(float(v) for row in rows for v in row)
    else:
        values = tuple(float(v) for v in given)
        if len(values) != sum(f.size for f in fields):
            raise ValueRefused(f"mode {mode!r} takes {wanted}; got {len(values)} numbers")
    begin = 0
    for f in fields:
        permitted = command_range(f.name, f.unit)
        permitted.check(f"{f.name} of mode {mode!r}", values[begin : begin + f.size])
        begin += f.size
    return values
