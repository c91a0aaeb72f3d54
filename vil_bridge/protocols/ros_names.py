"""Names in ROS, whose topics know no hyphens."""

from __future__ import annotations

from collections.abc import Iterable


def ros_name(name: str) -> str:
    """Return a name as topics have it."""
    return name.replace("-", "_")


def same_in_ros(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first two names that become one in ROS; None = all stay distinct."""
    known: dict[str, str] = {}
    for name in names:
        before = known.setdefault(ros_name(name), name)
        if before != name:
            return before, name
    return None
