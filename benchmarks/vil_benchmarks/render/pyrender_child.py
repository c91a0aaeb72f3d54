"""The yardstick hall in pyrender: EGL, one sun without shadow, colour and depth."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Final

import numpy as np

from vil_benchmarks.render.rivals import Draw, compare
from vil_benchmarks.render.yardstick import CAMERA
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Primitive, Texture
from vil_renderer.embedded.optics.camera import FAR_M, NEAR_M
from vil_renderer.embedded.scene import Scene

_GL_FROM_OPTICAL: Final = np.diag([1.0, -1.0, -1.0, 1.0])

os.environ["PYOPENGL_PLATFORM"] = "egl"  # read when it is imported
np.__dict__["infty"] = np.inf  # NumPy 2 has dropped it, pyrender uses it
pyrender: Any = import_module("pyrender")


def make(scene: Scene) -> Draw:
    """Return an offscreen renderer with the scene's parts, one mesh each."""
    hall: Any = pyrender.Scene(ambient_light=(0.5, 0.5, 0.5))
    textures: dict[int, Any] = {}
    for thing in scene.objects:
        for node in thing.asset.nodes:
            hall.add(pyrender.Mesh([_primitive(part, textures) for part in node.primitives]))
    fx, fy, cx, cy = CAMERA.intrinsics_px
    lens = pyrender.IntrinsicsCamera(fx, fy, cx + 0.5, cy + 0.5, znear=NEAR_M, zfar=FAR_M)
    camera = hall.add(lens)
    hall.add(pyrender.DirectionalLight(intensity=2.0), pose=np.eye(4))
    renderer = pyrender.OffscreenRenderer(CAMERA.width_px, CAMERA.height_px)

    def draw(world_from_optical: FloatArray) -> object:
        hall.set_pose(camera, world_from_optical @ _GL_FROM_OPTICAL)
        return renderer.render(hall)

    return draw


def _primitive(part: Primitive, textures: dict[int, Any]) -> Any:
    assert part.material.base is not None
    material = pyrender.MetallicRoughnessMaterial(
        baseColorTexture=_texture(part.material.base.texture, textures),
        metallicFactor=0.0,
        roughnessFactor=1.0,
    )
    return pyrender.Primitive(
        positions=part.p_m,
        normals=part.normal,
        texcoord_0=part.uv,
        indices=part.triangles,
        material=material,
    )


def _texture(texture: Texture, made: dict[int, Any]) -> Any:
    if id(texture) not in made:
        made[id(texture)] = pyrender.Texture(source=texture.pixels, source_channels="RGB")
    return made[id(texture)]


if __name__ == "__main__":
    compare(make)
