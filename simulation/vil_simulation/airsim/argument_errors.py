"""Words for an argument that does not fit.

Where in it, what is permitted, and the value that came.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

import msgspec

from vil_simulation.airsim.quantities import range_of
from vil_simulation.vehicles.physical_ranges import PhysicalRange

_PLACE: Final = re.compile(r" - at `\$(.*)`$")
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]")
_ELEMENT: Final = re.compile(r"^\[(\d+)\]")
_LONGEST_VALUE: Final = 40


def problem_of(name: str, cls: Any, argument: Any, exc: Exception, begin: int = 0) -> str:
    """Return what is wrong with an argument that was not converted.

    Its name with the place, and why.

    Args:
        name: of the argument.
        cls: its type.
        argument: as it came.
        exc: what msgspec raised.
        begin: number of the argument's first element, where it is a piece of a long list.
    """
    found = _PLACE.search(str(exc))
    place = "" if found is None else found[1]
    value, permitted = _at(place, cls, argument)
    if begin:
        place = _ELEMENT.sub(lambda element: f"[{begin + int(element[1])}]", place)
    if permitted is not None and isinstance(value, int | float) and not isinstance(value, bool):
        return f"({name}{place}) must be {permitted}, not {value:g}"
    reason = _PLACE.sub("", str(exc))
    return f"({name}{place}) is wrong: {reason}{_got(value)}"


def _at(place: str, cls: Any, argument: Any) -> tuple[Any, PhysicalRange | None]:
    """Return the value at a place of an argument, and the range of its type.

    None = that has none.
    """
    value = argument
    for key, index in _STEP.findall(place):
        if key and isinstance(value, Mapping):
            value = value.get(key)
            cls = _field_type(cls, key)
        elif index and isinstance(value, Sequence):
            value = value[int(index)]
            cls = _item_type(cls, int(index))
    return value, range_of(cls)


def _field_type(cls: Any, key: str) -> Any:
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(cls)}
    return fields.get(key)


def _item_type(cls: Any, index: int) -> Any:
    if hasattr(cls, "__metadata__"):
        cls = get_args(cls)[0]
    items = get_args(cls)
    return items[index] if len(items) > index > 0 else next(iter(items), None)


def _got(value: Any) -> str:
    """Return a value as an error shows it: the beginning of a text.

    Nothing of lists and objects.
    """
    if isinstance(value, str | bytes):
        return f", not {value[:_LONGEST_VALUE]!r}"
    if value is None or isinstance(value, int | float):
        return f", not {value}"
    return ""
