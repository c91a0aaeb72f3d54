"""The part that all shaders share.

The block of a picture's numbers, colours on the display, the version line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vil_renderer.embedded.engine.shader_colours import COLOURS
from vil_renderer.embedded.scene import CLASSES

MAX_LAMPS: Final = 8
MAX_JOINTS: Final = 160
LIGHT_TERMS: Final = 9
MODELS_PER_ROW: Final = 64
"""Terms of the light around a model, a texel each, and models in a row of their texture."""
NOW, MOVED, KNOWN = range(3)
"""Rows of the texture of joints, three texels to each."""
NO_SURFACE_M: Final = 1.0e6
LIGHT_ONE: Final = 128.0
"""Level of a light of 1 in the baked light of vertices, or of its root where light is linear."""
NO_FLOW: Final = 1.0e9
"""Value of the flow target without known motion."""


def shader(source: str, defines: Mapping[str, object]) -> str:
    """Return a source with its version and defines in front."""
    lines = "".join(f"#define {name} {value}\n" for name, value in defines.items())
    return (
        "#version 330 core\n#extension GL_ARB_shading_language_packing : require\n"
        f"{lines}{_FRAME}{source}"
    )


_FRAME: Final = f"""
#if SHADING > 1 && (defined(SHINY) || defined(NORMAL_MAP))
#define PLACED 1
#endif
#if defined(STATIC) && SHADING == 0 && !defined(LIGHTMAP) && !defined(UNLIT)
#undef VERTEX_COLOUR  // it is baked into the light
#endif
layout(std140) uniform Frame {{
    mat4 clip_from_world;
    mat4 clip_motion;   // clip_from_world minus that of the previous picture
    mat4 shadow_from_world;
    mat4 camera_from_world;
    mat4 world_from_ray;
    vec4 sky;
    vec4 ground;
    vec4 to_sun;
    vec4 to_sun_view;
    vec4 up_view;
    vec4 sun;
    vec4 zenith;
    vec4 horizon;
    vec4 size_px;    // z: a texel of the shadow map, w: number of lamps
    vec4 exposure;   // x: the camera's own factor on all light, y: the scene's
    vec4 air;        // its light, and its extinction per metre
    vec4 glow;       // light of white particles; w: share of the extinction that stops below roofs
    vec4 cover;      // wetness, snow and leaves on the ground; w: height of the layer of air
    vec4 eye;
    vec4 wind;       // reach of the tops of trees
    vec4 roof_low;   // lowest corner of the map of roofs, depth down to which points lie on it
    vec4 roof_scale; // 1 over its size
    // phases of the trees now and in the previous picture, exposure time, a pixel at 1 m
    vec4 moment;
    vec4 lamp_place[{MAX_LAMPS}];
    vec4 lamp_light[{MAX_LAMPS}];
    vec4 lamp_axis[{MAX_LAMPS}];
}};
{COLOURS}const int NOW = {NOW}, MOVED = {MOVED}, KNOWN = {KNOWN};
const float NO_SURFACE = {NO_SURFACE_M};
const float LIGHT_STEPS = {255.0 / LIGHT_ONE};
const float NO_FLOW = {NO_FLOW};
const int TERMS = {LIGHT_TERMS}, PER_ROW = {MODELS_PER_ROW};
const uint VEGETATION = {CLASSES["vegetation"]}u;
"""
