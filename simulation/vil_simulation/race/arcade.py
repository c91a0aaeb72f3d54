"""A bridge in which a person flies a race.

One simulated vehicle with a camera, and the renderer of its pictures.
"""

from __future__ import annotations

import math
from typing import Any, Final

from pydantic import ValidationError

from vil_bridge.config.course import load_course
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import q_to_euler_zyx
from vil_bridge.courses.variants import perturbed
from vil_bridge.registry import resolve

SCENE: Final = "empty"
"""A field of 200 x 200 m: every shipped course fits."""
_SIZE_M: Final = [0.35, 0.35, 0.12]
_SIZE_PX: Final = (640, 480)
_FOV_Y_DEG: Final = 80.0
_TILT_DEG: Final = -5.0
"""Pitch of the camera: up."""


def arcade_bridge(
    course: str, seed: int | None, ports: tuple[int, int], http_port: int
) -> BridgeConfig:
    """Return the configuration.

    Args:
        course: name or file.
        seed: moves its gates; None = nominal.
        ports: of the renderer: poses, pictures.
        http_port: of the pages.

    Raises:
        ConfigError: the course cannot be read, or is too large.
    """
    try:
        return BridgeConfig.model_validate(
            arcade_data(course, seed, ports, http_port), context={"resolve": resolve}
        )
    except ValidationError as exc:
        raise ConfigError(
            [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in exc.errors()]
        ) from None


def arcade_data(
    course: str, seed: int | None, ports: tuple[int, int], http_port: int
) -> dict[str, Any]:
    """Return the configuration's sections, as a file has them.

    Raises:
        ConfigError: the course cannot be read.
    """
    loaded = load_course(course)
    start = (loaded if seed is None else perturbed(loaded, seed)).start
    width_px, height_px = _SIZE_PX
    vehicle = {
        "model": "flightgoggles",
        "p_m": start.p_m.tolist(),
        "yaw_deg": math.degrees(q_to_euler_zyx(start.q_xyzw)[0]),
    }
    camera = {
        "actor": "drone",
        "renderer": "drawn",
        "T_body_camera": {"p_m": [0.1, 0.0, 0.03], "ypr_deg": [0.0, _TILT_DEG, 0.0]},
        "width_px": width_px,
        "height_px": height_px,
        "fov_y_deg": _FOV_Y_DEG,
        "rate_hz": 20,  # a page shows 15 at most
    }
    return {
        "version": 1,
        "name": "arcade",
        "rooms": {"field": {}},
        "sources": {"sim": {"type": "simulated", "room": "field", "vehicles": {"drone": vehicle}}},
        "actors": {
            "drone": {"kind": "vehicle", "source": "sim", "subject": "drone", "size_m": _SIZE_M}
        },
        "race": {"course": course, "seed": seed, "racers": ["drone"], "arcade": True},
        "renderers": {
            "drawn": {"type": "flightgoggles", "pose_port": ports[0], "image_port": ports[1]}
        },
        "cameras": {"front": camera},
        "http": {"port": http_port},
        "stream": {"bind": "tcp://127.0.0.1:0"},  # several may run on one computer
    }
