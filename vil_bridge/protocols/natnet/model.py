"""MODELDEF as values.

Names, hierarchy and geometry of what the frames hold, in streamed units and axes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class MarkerSetDescription:
    """Names of the markers of an asset of the same name, or of all."""

    name: str
    markers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MarkerDescription:
    """A marker of a rigid body (3.0).

    Position in the body's axes, required active label, name (4.0).
    """

    p: Vector
    label: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class BodyDescription:
    """A rigid body, or a bone of a skeleton or of a trained marker set.

    Attributes:
        parent_id: of a bone, the parent's id without the skeleton's part, 0 for the root; -1 for a
            body.
        offset: origin in the parent's axes.
        offset_q: attitude relative to the parent (x, y, z, w); 4.2 and newer.
    """

    name: str
    id: int
    parent_id: int = -1
    offset: Vector = (0.0, 0.0, 0.0)
    offset_q: Quaternion = (0.0, 0.0, 0.0, 1.0)
    markers: tuple[MarkerDescription, ...] = ()


@dataclass(frozen=True, slots=True)
class SkeletonDescription:
    """A skeleton and its bones, in the server's order."""

    name: str
    id: int
    bones: tuple[BodyDescription, ...]


@dataclass(frozen=True, slots=True)
class AssetMarkerDescription:
    """A marker of a trained marker set."""

    name: str
    id: int
    p: Vector = (0.0, 0.0, 0.0)
    size: float = 0.0
    params: int = 0


@dataclass(frozen=True, slots=True)
class AssetDescription:
    """A trained marker set (4.1): bodies and markers that move together."""

    name: str
    id: int
    bodies: tuple[BodyDescription, ...] = ()
    markers: tuple[AssetMarkerDescription, ...] = ()
    kind: int = 1


@dataclass(frozen=True, slots=True)
class ForcePlateDescription:
    """A force plate (3.0).

    Geometry, 12 x 12 calibration by rows, four corners of three coordinates.
    """

    id: int
    serial: str
    width: float
    length: float
    origin: Vector
    calibration: tuple[float, ...]
    corners: tuple[float, ...]
    plate_type: int
    data_type: int
    channels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceDescription:
    """Another analog device (3.0)."""

    id: int
    name: str
    serial: str
    device_type: int
    data_type: int
    channels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CameraDescription:
    """A camera of the system (3.0): position and attitude (x, y, z, w) in the streamed axes."""

    name: str
    p: Vector
    q: Quaternion


@dataclass(frozen=True, slots=True)
class UnknownDescription:
    """Description of a newer server, skipped by its size (4.1)."""

    kind: int
    content: bytes


Description = (
    MarkerSetDescription
    | BodyDescription
    | SkeletonDescription
    | ForcePlateDescription
    | DeviceDescription
    | CameraDescription
    | AssetDescription
    | UnknownDescription
)
Subject = BodyDescription | SkeletonDescription | AssetDescription


_Named = TypeVar("_Named", SkeletonDescription, Subject)
_Described = TypeVar(
    "_Described", BodyDescription, SkeletonDescription, AssetDescription, MarkerSetDescription
)


def firsts(items: Iterable[_Named]) -> tuple[_Named, ...]:
    """Return the items without those whose name an earlier one has."""
    by_name: dict[str, _Named] = {}
    for item in items:
        by_name.setdefault(item.name, item)
    return tuple(by_name.values())


@dataclass(frozen=True, slots=True)
class Models:
    """All that a server describes, in its order.

    Attributes:
        unread: bytes within descriptions that this codec does not know (newer servers).
    """

    items: tuple[Description, ...] = ()
    unread: int = 0

    @property
    def bodies(self) -> tuple[BodyDescription, ...]:
        """Return the rigid bodies."""
        return self._of(BodyDescription)

    @property
    def skeletons(self) -> tuple[SkeletonDescription, ...]:
        """Return the skeletons."""
        return self._of(SkeletonDescription)

    @property
    def assets(self) -> tuple[AssetDescription, ...]:
        """Return the trained marker sets."""
        return self._of(AssetDescription)

    @property
    def shared_names(self) -> tuple[str, ...]:
        """Return a line for each name that several subjects of a kind have.

        The first described one is used.
        """
        lines: list[str] = []
        kinds: dict[str, tuple[Subject, ...]] = {
            "rigid bodies": self.rigid,
            "skeletons": self.skeletons,
        }
        for kind, items in kinds.items():
            ids: dict[str, list[int]] = {}
            for item in items:
                ids.setdefault(item.name, []).append(item.id)
            lines += [
                f"{len(same)} {kind} are named {name!r} (ids "
                f"{', '.join(map(str, same))}): id {same[0]} is used. "
                "Rename the others in Motive"
                for name, same in ids.items()
                if len(same) > 1
            ]
        return tuple(lines)

    @property
    def rigid(self) -> tuple[Subject, ...]:
        """Return the rigid bodies and trained marker sets."""
        return (*self.bodies, *self.assets)

    @property
    def marker_sets(self) -> dict[str, MarkerSetDescription]:
        """Return the marker sets by their names."""
        return {item.name: item for item in self._of(MarkerSetDescription)}

    @property
    def by_name(self) -> dict[str, Subject]:
        """Return the bodies, skeletons and trained marker sets by their names.

        The first of several with one name.
        """
        subjects: tuple[Subject, ...] = (*self.bodies, *self.skeletons, *self.assets)
        return {item.name: item for item in firsts(subjects)}

    def _of(self, kind: type[_Described]) -> tuple[_Described, ...]:
        return tuple(item for item in self.items if isinstance(item, kind))
