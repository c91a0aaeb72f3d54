"""Results of alignments as people read and paste them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import yaml

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import NS_PER_MS
from vil_bridge.core.geometry import Transform, q_rotate
from vil_bridge.core.room_registration import Placement
from vil_bridge.core.types import FloatArray
from vil_bridge.setup.align.hand_eye import HandEye
from vil_bridge.setup.align.proposal import EstimatedMount, Proposal, transform_keys

_NOSE = np.array([1.0, 0.0, 0.0])
_UNLEVEL_DEG = 1.0


def keys_of(config: BridgeConfig, actor: str, proposal: Proposal) -> dict[str, Any]:
    """Return the changes of the configuration, as its sections."""
    source = config.actors[actor].source
    keys: dict[str, Any] = {
        "actors": {actor: {"T_body_markers": transform_keys(proposal.T_body_markers)}}
    }
    if proposal.up_axis is not None:
        keys["sources"] = {source: {"up_axis": proposal.up_axis}}
    if proposal.T_world_room is not None:
        room = str(getattr(config.sources[source], "room", ""))
        keys["rooms"] = {room: {"T_world_room": transform_keys(proposal.T_world_room)}}
    return keys


def as_yaml(keys: Mapping[str, Any]) -> str:
    """Return configuration sections to paste."""
    return yaml.safe_dump(dict(keys), sort_keys=False, allow_unicode=True, default_flow_style=None)


def view(
    mounting: EstimatedMount,
    proposal: Proposal,
    R_world_room: FloatArray,
    T_body_markers: Transform,
) -> dict[str, tuple[list[float], list[float]]]:
    """Return the moves in the world, as configured and with the changes.

    Metres, the nose without unit.
    """
    moves = {name: mounting.moves[name].displacement_m for name in ("forward", "left", "up")}
    rows = {
        f"move {name}": (R_world_room @ d, proposal.R_world_seen @ d) for name, d in moves.items()
    }
    q = mounting.moves["forward"].before.q_xyzw
    noses = [
        R @ q_rotate(q, Transform(np.zeros(3), T.q_xyzw).inverse().apply(_NOSE))
        for R, T in (
            (R_world_room, T_body_markers),
            (proposal.R_world_seen, mounting.T_body_markers),
        )
    ]
    rows["nose"] = (noses[0], noses[1])
    return {
        name: (now.round(2).tolist(), then.round(2).tolist()) for name, (now, then) in rows.items()
    }


def alignment_text(
    mounting: EstimatedMount, rows: Mapping[str, tuple[list[float], list[float]]]
) -> str:
    """Return the findings and the view before and after."""
    axes = mounting.axes
    pivot = mounting.pivot
    forward, left, up = axes.names
    lines = [
        f"axes:   forward {forward}, left {left}, up {up} of the room as configured; right-handed",
        f"        forward was walked {axes.off_deg:.0f} degrees off an axis",
        f"pivot:  {_triple(pivot.p_markers_m, 1e3)} mm from the marker frame's origin, in "
        "its axes; it wandered by "
        f"{1e3 * pivot.residual_m:.1f} mm while tilted by {pivot.tilt_deg:.0f} degrees",
        "",
        f"{'in the world':<14}{'now':<28}after",
    ]
    lines += [f"{name:<14}{_triple(now):<28}{_triple(then)}" for name, (now, then) in rows.items()]
    return "\n".join(lines)


def calibration_text(found: HandEye) -> str:
    """Return the calibration with its uncertainties and further findings."""
    keys = transform_keys(found.T_imu_markers)
    lines = [
        f"marker frame in the IMU's axes: {keys['p_m']} m, yaw pitch roll "
        f"{keys['ypr_deg']} degrees",
        f"uncertainty: {np.degrees(found.sd_rad):.2f} degrees, {1e3 * found.sd_m:.1f} mm "
        "(one standard deviation)",
        f"clocks:      the IMU's stamps are {found.offset_ns / NS_PER_MS:+.1f} ms off the poses'",
        f"biases:      gyroscope {_triple(found.gyro_bias_radps)} rad/s, accelerometer "
        f"{_triple(found.accel_bias_mps2)} m/s2",
        f"level:       the room's z leans {found.room_tilt_deg:.1f} degrees from the vertical",
    ]
    if found.room_tilt_deg > _UNLEVEL_DEG:
        lines.append("             that is much: set the ground plane of the mocap system again")
    return "\n".join(lines)


def placement_text(placement: Placement) -> str:
    """Describe the residuals of a placement."""
    residuals = placement.residuals_m
    return (
        f"{len(residuals)} pairs; they miss each other by {1e3 * placement.rms_m:.1f} mm rms, "
        f"{1e3 * float(residuals.max()):.1f} mm at most (pair {int(np.argmax(residuals)) + 1})"
    )


def _triple(values: FloatArray | list[float], scale: float = 1.0) -> str:
    return "(" + ", ".join(f"{scale * v:.2f}" for v in values) + ")"
