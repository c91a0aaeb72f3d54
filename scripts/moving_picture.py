"""Draw the README's moving picture: the demonstration's hall, seen by an observer and by the drone.

python scripts/moving_picture.py docs/figures/demo.webp
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image

from vil_adapters.lab.motions import Scenario
from vil_bridge.cli.options import load_config
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import NS_PER_MS
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import CameraModel, Modality, View, WorldSnapshot
from vil_bridge.daemon.factories import bridge_camera
from vil_renderer.embedded import EmbeddedRenderer, load_scene

_SIZE: Final = (400, 300)
_FOV_Y_DEG: Final = {"observer": 50.0, "front": 70.0}
_BEGIN_MS: Final = 4_000
_PERIOD_MS: Final = 80
_FRAMES: Final = 75


def _main(path: Path) -> None:
    config = load_config(Path(__file__).parents[1] / "configs" / "demo.yaml", None)
    scenario = Scenario.simulated()
    with EmbeddedRenderer(load_scene("hall"), "high") as renderer:
        frames = []
        for number in range(_FRAMES):
            t_ns = (_BEGIN_MS + number * _PERIOD_MS) * NS_PER_MS
            snapshot = scenario.snapshot(t_ns)
            assert snapshot is not None, "a simulated vehicle is always tracked"
            views = [_view(config, name, snapshot) for name in _FOV_Y_DEG]
            frames.append(
                Image.fromarray(
                    np.hstack([picture.pixels for picture in renderer.render(views, snapshot)])
                )
            )
    frames[0].save(
        path,
        save_all=True,
        append_images=frames[1:],
        duration=_PERIOD_MS,
        loop=0,
        quality=55,
        method=6,
    )


def _view(config: BridgeConfig, name: str, snapshot: WorldSnapshot) -> View:
    """Return the configured camera's view, in the size of the picture."""
    camera = bridge_camera(name, config.cameras[name], config)
    carrier = next(
        (actor.T_world_body for actor in snapshot.actors if actor.name == camera.actor),
        Transform.identity(),
    )
    model = CameraModel(name, *_SIZE, math.radians(_FOV_Y_DEG[name]))
    return View(model, Modality.RGB, camera.mounted(carrier), snapshot.t_ns, hide=camera.hides)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
