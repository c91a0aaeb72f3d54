"""Bodies and port of the controls: mounts, faults, obstacles, the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Protocol

from pydantic import BaseModel, Field

from vil_bridge.web.schemas.body import Body


@dataclass(frozen=True, slots=True)
class MountView:
    """T_body_camera: a camera's place and attitude (x forward, y left, z up) in its carrier.

    Attributes:
        p_m: metres. q_xyzw: Hamilton, scalar last.
    """

    p_m: tuple[float, float, float]
    q_xyzw: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class PropView:
    """An obstacle that renderers draw: its pose in the world and its box along its own axes.

    Attributes:
        size_m: along x, y, z, metres. prefab: name of the renderer's model; empty = a box.
    """

    p_m: tuple[float, float, float]
    q_xyzw: tuple[float, float, float, float]
    size_m: tuple[float, float, float]
    prefab: str = ""


@dataclass(frozen=True, slots=True)
class ReloadView:
    """Result of reading the configuration again, as dotted paths of its keys.

    Attributes:
        applied: changed, and in force. needs_restart: changed in the file, not in force before a
            restart.
    """

    applied: tuple[str, ...] = ()
    needs_restart: tuple[str, ...] = ()


class Controls(Protocol):
    """Port to the running bridge; called by the HTTP server's thread, returns within milliseconds.

    Unknown names raise KeyError; a refused change raises ValueError with the reason (ValueRefused:
    a wrong number).
    """

    def mount(self, camera: str) -> MountView:
        """Return the mount of a camera."""
        ...

    def set_mount(self, camera: str, mount: MountView) -> None:
        """Move a camera; from its next picture on.

        The right camera of a pair goes with the left one.
        """
        ...

    def faults(self, source: str) -> str:
        """Return the faults injected into a source, empty = none."""
        ...

    def set_faults(self, source: str, text: str) -> None:
        """Inject other faults into a source. Raises ConfigError: the text is malformed."""
        ...

    def props(self) -> Mapping[str, PropView]:
        """Return the obstacles by name."""
        ...

    def set_prop(self, name: str, prop: PropView) -> PropView:
        """Add an obstacle to the world, or move it; return its drawn state."""
        ...

    def remove_prop(self, name: str) -> None:
        """Remove an obstacle."""
        ...

    def effective(self) -> dict[str, Any]:
        """Return the configuration in force, with every default and override."""
        ...

    def reload(self) -> ReloadView:
        """Read the configuration again and apply what can change in flight.

        Raises:
            ConfigError: the file is bad, with every problem; nothing was changed.
        """
        ...


_FARTHEST_M: Final = 10_000.0

_LONGEST_M: Final = 1000.0

_Place = Annotated[float, Field(ge=-_FARTHEST_M, le=_FARTHEST_M)]

_Unit = Annotated[float, Field(ge=-1, le=1)]

_Side = Annotated[float, Field(gt=0, le=_LONGEST_M)]


class MountBody(Body):
    """T_body_camera: place and attitude (x forward, y left, z up) of a camera in its carrier."""

    p_m: tuple[_Place, _Place, _Place] = Field(description="Metres.")
    q_xyzw: tuple[_Unit, _Unit, _Unit, _Unit] = Field(
        description="Hamilton, scalar last, length 1."
    )


class FaultsBody(Body):
    """Faults to inject."""

    faults: str = Field(
        max_length=1000,
        description="Such as `loss=5%,delay=20ms`; empty = none.",
    )


class FaultsOut(BaseModel):
    """Faults injected into a source."""

    faults: str = Field(description="In the syntax of `--faults`; empty = none.")


class PropBody(Body):
    """An obstacle: a box in the world."""

    p_m: tuple[_Place, _Place, _Place] = Field(description="Its middle, metres.")
    q_xyzw: tuple[_Unit, _Unit, _Unit, _Unit] = Field(
        default=(0.0, 0.0, 0.0, 1.0), description="Its attitude: Hamilton, scalar last, length 1."
    )
    size_m: tuple[_Side, _Side, _Side] = Field(description="Along its own x, y, z, metres.")
    prefab: str = Field(
        default="", max_length=255, description="Name of the renderer's model; empty = a box."
    )
