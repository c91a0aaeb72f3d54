"""Shaders of the sky, and of the soft dark patches below actors, on meshes and on splats."""

from __future__ import annotations

from typing import Final

from vil_renderer.embedded.engine.shader_weather import AIR

SKY_VERTEX: Final = """
in vec2 in_p;
out vec3 v_ray;
void main() {
    gl_Position = vec4(in_p, 1.0, 1.0);
    v_ray = mat3(world_from_ray) * vec3(in_p, 1.0);
}
"""

SKY_FRAGMENT: Final = (
    AIR
    + """
in vec3 v_ray;
#ifdef OUT_COLOUR
layout(location = OUT_COLOUR) out vec4 out_colour;
#endif
#ifdef OUT_Z
layout(location = OUT_Z) out float out_z_m;
#endif
#ifdef OUT_NORMAL
layout(location = OUT_NORMAL) out uvec2 out_normal;
#endif
#ifdef OUT_IDS
layout(location = OUT_IDS) out uint out_ids;
#endif
#ifdef OUT_FLOW
layout(location = OUT_FLOW) out vec2 out_flow;
#endif
void main() {
#ifdef NOTHING
#ifdef OUT_COLOUR
    out_colour = vec4(0.0);
#endif
#elif defined(OUT_COLOUR)
    vec3 ray = v_ray * inversesqrt(dot(v_ray, v_ray));
    vec3 colour = mix(horizon.rgb, zenith.rgb, clamp(1.8 * ray.z, 0.0, 1.0));
    colour = mix(colour, ground.rgb * 0.6, clamp(-6.0 * ray.z, 0.0, 1.0));
    colour += sun.rgb * smoothstep(0.9996, 0.9999, dot(ray, to_sun.xyz));
#ifdef AIR
    // the way through the layer of air
    colour = through_air(colour, 1.0, exp(-air.w * cover.w / max(ray.z, 0.02)));
#endif
#if SHADING == 0
    colour = pow(colour, vec3(1.0 / 2.2));
#endif
    out_colour = vec4(to_picture(colour * exposure.x), 1.0);
#endif
#ifdef OUT_Z
    out_z_m = NO_SURFACE;
#endif
#ifdef OUT_NORMAL
    out_normal = uvec2(0u);
#endif
#ifdef OUT_IDS
    out_ids = 0u;
#endif
#ifdef OUT_FLOW
    out_flow = vec2(NO_FLOW);
#endif
}
"""
)

BLOB_VERTEX: Final = """
in vec3 in_p;
in vec3 in_place;
in vec2 in_shape;    // radius, strength
out vec2 v_p;
flat out float v_strength;
void main() {
    gl_Position = clip_from_world * vec4(in_place + in_shape.x * in_p, 1.0);
    v_p = in_p.xy;
    v_strength = in_shape.y;
}
"""

BLOB_FRAGMENT: Final = """
in vec2 v_p;
flat in float v_strength;
layout(location = 0) out vec4 out_colour;
void main() {
    out_colour = vec4(0.0, 0.0, 0.0, v_strength * max(0.0, 1.0 - dot(v_p, v_p)));
}
"""

SHADE_VERTEX: Final = """
in vec3 in_p;
in vec3 in_place;
in vec2 in_shape;    // radius, strength
flat out vec3 v_place;
flat out vec2 v_shape;
void main() {
    gl_Position = clip_from_world * vec4(in_place + vec3(in_shape.xx, SHADE_HIGH_M) * in_p, 1.0);
    v_place = in_place;
    v_shape = in_shape;
}
"""

_SPLAT_SURFACE: Final = """
uniform sampler2D surface_map;  // z-depth of the surface that splats show
layout(location = 0) out vec4 out_colour;
float surface_z_m() { return texelFetch(surface_map, ivec2(gl_FragCoord.xy), 0).r; }
vec3 surface_p(float z_m) {
    return eye.xyz + z_m * (mat3(world_from_ray)
        * vec3(2.0 * gl_FragCoord.xy / size_px.xy - 1.0, 1.0));
}
"""

SHADE_FRAGMENT: Final = (
    _SPLAT_SURFACE
    + """
flat in vec3 v_place;
flat in vec2 v_shape;
void main() {
    vec3 off = surface_p(surface_z_m()) - v_place;
    vec2 across = off.xy / v_shape.x;
    float level = 1.0 - smoothstep(0.2 * SHADE_HIGH_M, SHADE_HIGH_M, abs(off.z));
    out_colour = vec4(0.0, 0.0, 0.0, v_shape.y * max(0.0, 1.0 - dot(across, across)) * level);
}
"""
)

SUN_VERTEX: Final = """
in vec3 in_p;
void main() { gl_Position = vec4(in_p, 1.0); }
"""

SUN_FRAGMENT: Final = (
    _SPLAT_SURFACE
    + """
uniform usampler2D surface_normal_map;
uniform sampler2DShadow shadow_map;
void main() {
    out_colour = vec4(1.0);
    float z_m = surface_z_m();
    if (z_m >= NO_SURFACE) return;
    uvec2 stored = texelFetch(surface_normal_map, ivec2(gl_FragCoord.xy), 0).rg;
    vec3 n = vec3(unpackHalf2x16(stored.x), unpackHalf2x16(stored.y).x);  // in the camera's axes
    float facing = dot(n, to_sun_view.xyz);
    if (facing <= 0.0) return;
    vec3 lifted = surface_p(z_m) + to_sun.w * (n * mat3(camera_from_world));
    float lit = texture(shadow_map, (shadow_from_world * vec4(lifted, 1.0)).xyz);
    vec3 around = mix(ground.rgb, sky.rgb, 0.5 + 0.5 * dot(n, up_view.xyz));
    vec3 left = around / (around + facing * sun.rgb + 1e-6);
    out_colour.rgb = mix(pow(left, vec3(1.0 / 2.2)), vec3(1.0), lit);
}
"""
)
