"""The yardstick hall in Panda3D: EGL, fixed function, one sun, trilinear mipmaps, RGB to memory."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import numpy as np

from vil_benchmarks.render.rivals import Draw, compare
from vil_benchmarks.render.yardstick import CAMERA
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Primitive, Texture
from vil_renderer.embedded.optics.camera import FAR_M, NEAR_M
from vil_renderer.embedded.scene import Scene

core: Any = import_module("panda3d.core")

_SETTINGS: Final = """
load-display p3headlessgl
window-type offscreen
audio-library-name null
sync-video false
textures-power-2 none
"""
_GL_FROM_OPTICAL: Final = np.diag([1.0, -1.0, -1.0, 1.0])


def make(scene: Scene) -> Draw:
    """Return an offscreen buffer with the scene's parts, one node each."""
    core.load_prc_file_data("", _SETTINGS)
    engine: Any = core.GraphicsEngine.get_global_ptr()
    pipe = core.GraphicsPipeSelection.get_global_ptr().make_default_pipe()
    frame = core.FrameBufferProperties()
    frame.set_rgba_bits(8, 8, 8, 8)
    frame.set_depth_bits(24)
    size = core.WindowProperties.size(CAMERA.width_px, CAMERA.height_px)
    buffer = engine.make_output(pipe, "hall", 0, frame, size, core.GraphicsPipe.BF_refuse_window)
    pixels = core.Texture()
    buffer.add_render_texture(
        pixels, core.GraphicsOutput.RTM_copy_ram, core.GraphicsOutput.RTP_color
    )
    root = core.NodePath("hall")
    _light(root, scene)
    textures: dict[int, Any] = {}
    for thing in scene.objects:
        for node in thing.asset.nodes:
            for part in node.primitives:
                _add(root, part, textures)
    camera = root.attach_new_node(core.Camera("eye", _lens()))
    buffer.make_display_region().set_camera(camera)

    def draw(world_from_optical: FloatArray) -> object:
        camera.set_mat(core.LMatrix4(*(world_from_optical @ _GL_FROM_OPTICAL).T.ravel().tolist()))
        engine.render_frame()
        return np.frombuffer(pixels.get_ram_image(), np.uint8)

    return draw


def _lens() -> Any:
    lens = core.PerspectiveLens()
    lens.set_aspect_ratio(CAMERA.width_px / CAMERA.height_px)
    lens.set_min_fov(np.degrees(CAMERA.fov_y_rad))
    lens.set_near_far(NEAR_M, FAR_M)
    lens.set_coordinate_system(core.CS_yup_right)
    return lens


def _light(root: Any, scene: Scene) -> None:
    sun = core.DirectionalLight("sun")
    around = core.AmbientLight("around")
    assert scene.environment.sun is not None
    sun.set_direction(core.LVector3(*(-scene.environment.sun.to_sun).tolist()))
    around.set_color((0.5, 0.5, 0.5, 1.0))
    for light in (sun, around):
        root.set_light(root.attach_new_node(light))


def _add(root: Any, part: Primitive, textures: dict[int, Any]) -> None:
    rows = np.hstack((part.p_m, part.normal, part.uv)).astype(np.float32)
    data = core.GeomVertexData("part", core.GeomVertexFormat.get_v3n3t2(), core.Geom.UH_static)
    data.unclean_set_num_rows(len(rows))
    memoryview(data.modify_array(0)).cast("B")[:] = rows.tobytes()
    triangles = core.GeomTriangles(core.Geom.UH_static)
    triangles.set_index_type(core.Geom.NT_uint32)
    indices = triangles.modify_vertices()
    indices.unclean_set_num_rows(part.triangles.size)
    memoryview(indices).cast("B")[:] = part.triangles.astype(np.uint32).tobytes()
    geom = core.Geom(data)
    geom.add_primitive(triangles)
    node = core.GeomNode("part")
    node.add_geom(geom)
    assert part.material.base is not None
    root.attach_new_node(node).set_texture(_texture(part.material.base.texture, textures))


def _texture(texture: Texture, made: dict[int, Any]) -> Any:
    if id(texture) not in made:
        height, width = texture.pixels.shape[:2]
        sent = core.Texture()
        sent.setup_2d_texture(width, height, core.Texture.T_unsigned_byte, core.Texture.F_rgb)
        sent.set_ram_image_as(np.ascontiguousarray(texture.pixels).tobytes(), "RGB")
        sent.set_minfilter(core.SamplerState.FT_linear_mipmap_linear)
        made[id(texture)] = sent
    return made[id(texture)]


if __name__ == "__main__":
    compare(make)
