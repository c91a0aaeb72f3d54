"""The part that all shaders share: the block of a picture's numbers, colours on the display, the version line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vil_bridge.core.tone_curve import LIFT, SHOULDER, TOE, WHITE
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
    return f"#version 330 core\n#extension GL_ARB_shading_language_packing : require\n{lines}{_FRAME}{source}"


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
    vec4 moment;     // phases of the trees now and in the previous picture, exposure time, a pixel at 1 m
    vec4 lamp_place[{MAX_LAMPS}];
    vec4 lamp_light[{MAX_LAMPS}];
    vec4 lamp_axis[{MAX_LAMPS}];
}};
// sRGB's two curves, fitted: 0.3 and 0.02 levels of 255 off at worst, and no power in them.
vec3 to_linear(vec3 c) {{
#if SHADING == 0
    return c;
#else
    vec3 upper = 0.00154448 + c * (0.01426151 + c * (0.65599327 + c * 0.33079755));
    return mix(upper, c / 12.92, lessThan(c, vec3(0.04045)));
#endif
}}
vec3 encoded(vec3 c) {{
    vec3 a = sqrt(c), b = sqrt(a);
    vec3 upper = 0.64454099 * a + 0.70997365 * b - 0.33606493 * sqrt(b) - 0.01848094 * c;
    return mix(upper, c * 12.92, lessThan(c, vec3(0.0031308)));
}}
vec3 to_display(vec3 c) {{
#if SHADING == 0
    return c;
#else
    return encoded(clamp(c, 0.0, 1.0));
#endif
}}
// The colour in the picture of light: with baked light by a camera's tone curve (vil_bridge.core.tone_curve).
vec3 to_picture(vec3 c) {{
#ifdef TONED
#if SHADING == 0
    c = max(c, 0.0);
#else
    c = encoded(max(c, 0.0));
#endif
    const float room = {1.0 - SHOULDER}, most = {(WHITE - SHOULDER) / (1.0 - SHOULDER)};
    vec3 low = max(1.0 - c * {1.0 / TOE}, 0.0);
    vec3 above = clamp((c - {SHOULDER}) * {1.0 / (1.0 - SHOULDER)}, 0.0, most);
    vec3 rolled = above * (1.0 + above * (1.0 / (most * most))) / (1.0 + above);
    return min(c, {SHOULDER}) + {LIFT} * c * low * low + room * rolled;
#else
    return to_display(c);
#endif
}}
const int NOW = {NOW}, MOVED = {MOVED}, KNOWN = {KNOWN};
const float NO_SURFACE = {NO_SURFACE_M};
const float LIGHT_STEPS = {255.0 / LIGHT_ONE};
const float NO_FLOW = {NO_FLOW};
const int TERMS = {LIGHT_TERMS}, PER_ROW = {MODELS_PER_ROW};
const uint VEGETATION = {CLASSES["vegetation"]}u;
"""
