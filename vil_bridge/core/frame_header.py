"""Metadata of a picture, from the relay to every output, and their JSON on the wire.

docs/reference/stream.md.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from vil_bridge.core.geometry import Transform


class FrameStamps(msgspec.Struct, gc=False, frozen=True):
    """Bridge time at the stations of a frame; None = unknown.

    Attributes:
        encode, send: set in what a reader of the stream gets, absent before.
    """

    capture: int | None = None
    arrival: int | None = None
    request: int | None = None
    image: int | None = None
    warp: int | None = None
    encode: int | UnsetType = UNSET
    send: int | UnsetType = UNSET


class HeaderPose(msgspec.Struct, gc=False, frozen=True):
    """Pose of a camera's optical axes in the world, plain numbers."""

    p_m: list[float]
    q_xyzw: list[float]

    @classmethod
    def of(cls, pose: Transform) -> HeaderPose:
        """Return the plain numbers of a pose."""
        return cls(pose.p_m.tolist(), pose.q_xyzw.tolist())


class HeaderRace(msgspec.Struct, gc=False, frozen=True):
    """Race of a camera's carrier as its bridge knows it, plain numbers.

    Attributes:
        state: waiting, ready, racing, or the outcome. next_gate: name of the gate that is due;
            empty after the end.
        passed: gates so far. lap: from 1. laps: of the race.
        race_s: time of the race at the instant that the picture shows, without penalties.
            penalty_s: so far.
    """

    state: str
    next_gate: str
    passed: int
    lap: int
    laps: int
    race_s: float
    penalty_s: float


class FrameHeader(msgspec.Struct, kw_only=True, gc=False):
    """Metadata of one picture of one camera.

    The order of the fields is that of the keys on the wire.

    Attributes:
        width, height: of the picture, pixels. K: its intrinsics (fx, fy, cx, cy), pixels.
        T_body_camera: mount of the camera, once it has been moved.
        compensated: True when the picture was warped to another pose than it was rendered for.
        frame_id: of the request. t_display_ns: instant that the picture shows.
        tracking: state of the carrier, ``fixed`` for a camera without one.
        compensation: how the picture was warped, at least ``method``.
        motion: twist of the carrier at ``t_display_ns``, what is known of its IMU, the covariance
            of its pose, and the newest state that was measured; None = fixed, or not asked for.
        race: of the carrier; absent where it does not race.
        t_use_ns: when the picture is expected to be used. t_oldest_ns: instant from which its age
            counts.
        t_expires_ns: when it is older than its camera's ``max_age_ms``; in what a reader of the
            stream gets.
        blank: True for a black picture of a lost carrier; absent otherwise. Such a picture has no
            poses, no collision, no landmarks and no range: None here, absent on the wire.
        t_render_ns: instant of ``pose_rendered``.
        render_age_ns: only of a rendering that is shown again, since the next one is late:
            ``t_display_ns`` minus ``t_render_ns``.
        collision: whether the carrier collided; None = not asked for.
        landmarks: beacons as name, column and row (pixels) and z-depth (metres).
        range_m: of the range finder; None = unknown.
        encoding, format, rows: form of the encoded picture; absent before it is encoded.
        memory: where a reader of shared memory finds it.
    """

    camera: str
    width: int
    height: int
    K: tuple[float, float, float, float]
    T_body_camera: dict[str, Any] | UnsetType = UNSET
    compensated: bool = False
    frame_id: int
    t_display_ns: int
    tracking: str
    compensation: dict[str, Any]
    motion: dict[str, Any] | None = None
    race: HeaderRace | UnsetType = UNSET
    modality: str
    t_use_ns: int | None = None
    t_oldest_ns: int | None = None
    variant: str
    blank: bool | UnsetType = UNSET
    t_render_ns: int | None = None
    render_age_ns: int | UnsetType = UNSET
    pose_rendered: HeaderPose | None = None
    pose_display: HeaderPose | None = None
    collision: bool | None = None
    landmarks: list[list[Any]] = []
    range_m: float | None = None
    stamps_ns: FrameStamps = FrameStamps()
    encoding: str | UnsetType = UNSET
    format: str | UnsetType = UNSET
    rows: str | UnsetType = UNSET
    memory: dict[str, Any] | UnsetType = UNSET
    t_expires_ns: int | UnsetType = UNSET

    @property
    def kind(self) -> tuple[str, str]:
        """Modality and variant."""
        return self.modality, self.variant

    def to_json(self) -> bytes:
        """Return the header as the stream and recordings write it."""
        return msgspec.json.encode(self.fields() if self.blank else self)

    def fields(self) -> dict[str, Any]:
        """Return the keys and values of the wire, in its order."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        if self.blank:
            return {name: values[name] for name in _BLANK_FIELDS if name in values}
        return values


_BLANK_FIELDS: Final = (
    *(
        "camera",
        "width",
        "height",
        "K",
        "T_body_camera",
        "compensated",
        "frame_id",
        "t_display_ns",
        "tracking",
    ),
    *(
        "compensation",
        "motion",
        "race",
        "modality",
        "variant",
        "blank",
        "t_use_ns",
        "t_oldest_ns",
        "stamps_ns",
    ),
    *("encoding", "format", "rows", "memory", "t_expires_ns"),
)
"""Keys of a blank picture's header, which has fewer and in another order."""
