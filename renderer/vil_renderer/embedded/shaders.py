"""Shader sources. Every program writes colour and linear z-depth in one pass.

The clip space is optical (y down), w is the z-depth: ``1 / gl_FragCoord.w`` gives it back, exact on planes.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "CAPSULE_VERTEX",
    "MAX_LAMPS",
    "NO_SURFACE_M",
    "SHADOW_FRAGMENT",
    "SHADOW_VERTEX",
    "SKY_FRAGMENT",
    "SKY_VERTEX",
    "SOLID_VERTEX",
    "STATIC_VERTEX",
    "SURFACE_FRAGMENT",
]

MAX_LAMPS: Final = 8
NO_SURFACE_M: Final = 1.0e6

STATIC_VERTEX: Final = """
#version 330 core
uniform mat4 clip_from_world;
in vec3 in_p;
in vec3 in_uvl;
in vec4 in_colour;
out vec3 v_light;
out vec2 v_uv;
flat out float v_layer;
void main() {
    gl_Position = clip_from_world * vec4(in_p, 1.0);
    v_light = in_colour.rgb * 2.0;
    v_uv = in_uvl.xy;
    v_layer = in_uvl.z;
}
"""

_ACTOR_LIGHT: Final = f"""
uniform vec3 sky;
uniform vec3 ground;
uniform vec3 to_sun;
uniform vec3 sun;
uniform vec3 lamps[{MAX_LAMPS}];
uniform vec3 lamp;
uniform int lamp_count;
vec3 lit(vec3 p, vec3 n, vec4 colour) {{
    vec3 light = mix(ground, sky, 0.5 + 0.5 * n.z) + max(dot(n, to_sun), 0.0) * sun;
    for (int i = 0; i < lamp_count; ++i) {{
        vec3 d = lamps[i] - p;
        light += lamp * max(dot(n, d), 0.0) * inversesqrt(dot(d, d)) / (1.0 + dot(d, d));
    }}
    return colour.rgb * mix(sqrt(light), vec3(1.4), colour.a);
}}
"""

SOLID_VERTEX: Final = (
    """
#version 330 core
uniform mat4 clip_from_world;
in vec3 in_p;
in vec3 in_normal;
in vec2 in_uv;
in vec3 in_x;
in vec3 in_y;
in vec3 in_z;
in vec3 in_origin;
in vec4 in_colour;
in float in_layer;
out vec3 v_light;
out vec2 v_uv;
flat out float v_layer;
"""
    + _ACTOR_LIGHT
    + """
void main() {
    mat3 axes = mat3(in_x, in_y, in_z);
    vec3 p = axes * in_p + in_origin;
    // Columns are orthogonal: dividing by their squared lengths is the inverse transpose.
    vec3 squares = vec3(dot(in_x, in_x), dot(in_y, in_y), dot(in_z, in_z));
    vec3 n = normalize(axes * (in_normal / squares));
    gl_Position = clip_from_world * vec4(p, 1.0);
    v_light = lit(p, n, in_colour);
    v_uv = in_uv;
    v_layer = in_layer;
}
"""
)

CAPSULE_VERTEX: Final = (
    """
#version 330 core
uniform mat4 clip_from_world;
in vec3 in_direction;
in float in_end;
in float in_turn;
in vec3 in_a;
in vec3 in_b;
in vec2 in_radii;
in vec4 in_colour;
in float in_layer;
out vec3 v_light;
out vec2 v_uv;
flat out float v_layer;
"""
    + _ACTOR_LIGHT
    + """
void main() {
    vec3 along = in_b - in_a;
    float span = max(length(along), 1e-6);
    vec3 z = along / span;
    vec3 x = normalize(abs(z.z) < 0.9 ? cross(vec3(0.0, 0.0, 1.0), z) : cross(vec3(0.0, 1.0, 0.0), z));
    vec3 n = mat3(x, cross(z, x), z) * in_direction;
    float r = mix(in_radii.x, in_radii.y, in_end);
    vec3 p = mix(in_a, in_b, in_end) + r * n;
    gl_Position = clip_from_world * vec4(p, 1.0);
    v_light = lit(p, n, in_colour);
    v_uv = vec2(in_turn * 0.4, 0.5 * (in_end * span + r * in_direction.z) + 0.15);
    v_layer = in_layer;
}
"""
)

SURFACE_FRAGMENT: Final = """
#version 330 core
uniform sampler2DArray layers;
in vec3 v_light;
in vec2 v_uv;
flat in float v_layer;
layout(location = 0) out vec4 out_colour;
layout(location = 1) out float out_z_m;
void main() {
    out_colour = vec4(texture(layers, vec3(v_uv, v_layer)).rgb * v_light, 1.0);
    out_z_m = 1.0 / gl_FragCoord.w;
}
"""

SHADOW_VERTEX: Final = """
#version 330 core
uniform mat4 clip_from_world;
in vec2 in_p;
in vec3 in_place;
in float in_strength;
out vec2 v_p;
flat out float v_strength;
void main() {
    gl_Position = clip_from_world * vec4(in_place.xy + in_place.z * in_p, 0.0, 1.0);
    v_p = in_p;
    v_strength = in_strength;
}
"""

SHADOW_FRAGMENT: Final = """
#version 330 core
in vec2 v_p;
flat in float v_strength;
layout(location = 0) out vec4 out_colour;
layout(location = 1) out vec4 out_z_m;
void main() {
    float inside = max(0.0, 1.0 - dot(v_p, v_p));
    out_colour = vec4(0.0, 0.0, 0.0, v_strength * inside);
    out_z_m = vec4(1.0 / gl_FragCoord.w, 0.0, 0.0, 1.0);
}
"""

SKY_VERTEX: Final = """
#version 330 core
uniform mat3 world_from_ray;
in vec2 in_p;
out vec3 v_ray;
void main() {
    gl_Position = vec4(in_p, 1.0, 1.0);
    v_ray = world_from_ray * vec3(in_p, 1.0);
}
"""

SKY_FRAGMENT: Final = f"""
#version 330 core
uniform vec3 zenith;
uniform vec3 horizon;
in vec3 v_ray;
layout(location = 0) out vec4 out_colour;
layout(location = 1) out float out_z_m;
void main() {{
    float up = v_ray.z * inversesqrt(dot(v_ray, v_ray));
    out_colour = vec4(mix(horizon, zenith, clamp(1.8 * up, 0.0, 1.0)), 1.0);
    out_z_m = {NO_SURFACE_M};
}}
"""
