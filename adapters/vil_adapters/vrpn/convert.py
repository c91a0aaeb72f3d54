"""The one place that knows a VRPN server's units and axes.

To the room's (z up, metres) and back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from vil_adapters.sessions.plausible_range import FARTHEST_M
from vil_bridge.core.geometry import q_normalize, yup_to_zup, zup_to_yup
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.vrpn.codec import TrackerPose

_NORM: Final = (0.9, 1.1)


@dataclass(frozen=True, slots=True)
class VrpnFrame:
    """A server's frame.

    Attributes:
        units: ``m`` or ``mm``. up_axis: ``y`` or ``z``.
    """

    units: str
    up_axis: str

    @property
    def scale_m(self) -> float:
        """Return the metres per streamed unit."""
        return 1e-3 if self.units == "mm" else 1.0

    def to_room(self, p: FloatArray, q_xyzw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Convert streamed positions (n, 3) and quaternions (n, 4) to metres, z up and unit
        length.
        """
        p_m = p * self.scale_m
        q_xyzw = q_normalize(q_xyzw)
        if self.up_axis == "y":
            p_m, q_xyzw = yup_to_zup(p_m, q_xyzw)
        return p_m, q_xyzw

    def from_room(self, p_m: FloatArray, q_xyzw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Invert :meth:`to_room` for unit quaternions."""
        if self.up_axis == "y":
            p_m, q_xyzw = zup_to_yup(p_m, q_xyzw)
        return p_m / self.scale_m, q_xyzw


def usable(pose: TrackerPose, scale_m: float) -> bool:
    """Return whether the pose can be one.

    Finite, within 10 km, a quaternion of about unit length.
    """
    # Not a single comparison holds for NaN.
    near = all(abs(x) * scale_m < FARTHEST_M for x in pose.p)
    return near and _NORM[0] < math.hypot(*pose.q_xyzw) < _NORM[1]


def subject_name(sender: str, sensor: int) -> str:
    """Return ``name`` for a device's first sensor, ``name/1`` and so on for the others."""
    return f"{sender}/{sensor}" if sensor else sender


def sender_and_sensor(subject: str) -> tuple[str, int]:
    """Invert :func:`subject_name`."""
    sender, _, sensor = subject.rpartition("/")
    return (sender, int(sensor)) if sender and sensor.isdecimal() else (subject, 0)
