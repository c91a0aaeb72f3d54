"""Columns of states and commands: names, sizes, units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray


@dataclass(frozen=True, slots=True)
class Field:
    """Some columns that belong together.

    Attributes:
        name: carries frame and unit, as all names of the project do (``p_world_m``).
        size: number of columns. unit: SI. meaning: one line.
    """

    name: str
    size: int
    unit: str
    meaning: str


RIGID_BODY: Final = (
    Field("p_world_m", 3, "m", "position, ENU"),
    Field("v_world_mps", 3, "m/s", "velocity, ENU"),
    Field("q_world_body", 4, "1", "attitude, x y z w"),
    Field("w_body_radps", 3, "rad/s", "angular rate, body FLU"),
)
"""The first 13 columns of every vehicle that is a rigid body."""
_RIGID: Final = [(field.name, field.size) for field in RIGID_BODY]


class StateLayout:
    """Columns of arrays of shape (n, size), one row a vehicle.

    Attributes:
        begins_rigid: the first 13 columns are those of a rigid body, as kernels want them.

    Raises:
        ValueError: two fields have the same name.
    """

    def __init__(self, *fields: Field) -> None:
        self.fields: Final = fields
        self._slices: dict[str, slice] = {}
        start = 0
        for field in fields:
            if field.name in self._slices:
                raise ValueError(f"two fields are named {field.name!r}")
            self._slices[field.name] = slice(start, start + field.size)
            start += field.size
        self.size: Final = start
        self.begins_rigid: Final = [
            (field.name, field.size) for field in fields[: len(_RIGID)]
        ] == _RIGID

    def __getitem__(self, name: str) -> slice:
        """Return the columns of a field. Raises KeyError: no such field."""
        return self._slices[name]

    def __contains__(self, name: str) -> bool:
        return name in self._slices

    def __iter__(self) -> Iterator[str]:
        return iter(self._slices)

    def split(self, rows: FloatArray) -> dict[str, FloatArray]:
        """Return views of an array's fields, shapes (..., field size)."""
        return {name: rows[..., columns] for name, columns in self._slices.items()}

    def pack(self, values: Mapping[str, object], n: int = 1) -> FloatArray:
        """Return an array of shape (n, size) from fields, each broadcast over the vehicles.

        Absent ones are 0.

        Raises:
            KeyError: a value has no field.
            ValueError: a value's shape does not fit.
        """
        rows = np.zeros((n, self.size))
        for name, value in values.items():
            rows[:, self._slices[name]] = np.asarray(value, dtype=np.float64)
        return rows


LEAST: Final = 1e-30
"""Smaller numbers of a state become 0 at the end of a step.

Speeds and rates that decay would else reach subnormal numbers, below 2.2e-308, which slow a step
down up to tenfold. Products of up to ten numbers of a state stay above them.
"""


def flush(x: FloatArray) -> FloatArray:
    """Set numbers of states smaller than :data:`LEAST` to 0, in place, and return the states."""
    x *= np.abs(x) >= LEAST
    return x
