"""Shader sources: one surface shader, cut to size by defines; sky, blobs and shadow depth beside it.

Clip space keeps the optical axes (y down), so that the first row read back is the top row, and its w is
the z-depth: ``1 / gl_FragCoord.w`` gives that back, exact on planes.

Defines of the surface shader: one of STATIC (vertices in the world, light baked), INSTANCED (rows of
matrices) and SKINNED; SHADING 0, 1 or 2 (:class:`~.profiles.Shading`); SHADOW; ALPHA_MASK, VERTEX_COLOUR,
NORMAL_MAP, METAL_ROUGH, EMISSIVE, OCCLUSION, DOUBLE_SIDED, SHINY, UNLIT of materials; OUT_COLOUR, OUT_Z,
OUT_NORMAL, OUT_IDS, OUT_FLOW with their locations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = [
    "BLOB_FRAGMENT",
    "BLOB_VERTEX",
    "DEPTH_FRAGMENT",
    "MAX_JOINTS",
    "MAX_LAMPS",
    "NO_FLOW",
    "NO_SURFACE_M",
    "SKY_FRAGMENT",
    "SKY_VERTEX",
    "SURFACE_FRAGMENT",
    "SURFACE_VERTEX",
    "shader",
]

MAX_LAMPS: Final = 8
MAX_JOINTS: Final = 160
NO_SURFACE_M: Final = 1.0e6
NO_FLOW: Final = 1.0e9
"""What the flow target holds where no motion is known."""


def shader(source: str, defines: Mapping[str, object]) -> str:
    """A source with its version and defines in front."""
    lines = "".join(f"#define {name} {value}\n" for name, value in defines.items())
    return f"#version 330 core\n#extension GL_ARB_shading_language_packing : require\n{lines}{_FRAME}{source}"


_FRAME: Final = f"""
#if SHADING > 1 && (defined(SHINY) || defined(NORMAL_MAP))
#define PLACED 1
#endif
layout(std140) uniform Frame {{
    mat4 clip_from_world;
    mat4 prev_clip_from_world;
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
    vec4 size_px;
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
vec3 to_display(vec3 c) {{
#if SHADING == 0
    return c;
#else
    c = clamp(c, 0.0, 1.0);
    vec3 a = sqrt(c), b = sqrt(a);
    vec3 upper = 0.64454099 * a + 0.70997365 * b - 0.33606493 * sqrt(b) - 0.01848094 * c;
    return mix(upper, c * 12.92, lessThan(c, vec3(0.0031308)));
#endif
}}
const float NO_SURFACE = {NO_SURFACE_M};
const float NO_FLOW = {NO_FLOW};
"""

_WORLD: Final = f"""
#ifdef INSTANCED
in vec4 in_m0; in vec4 in_m1; in vec4 in_m2;
#ifdef OUT_FLOW
in vec4 in_q0; in vec4 in_q1; in vec4 in_q2;
#endif
in uint in_ids;
#endif
#ifdef STATIC
in uint in_ids;
#endif
#ifdef SKINNED
in uvec4 in_joints; in vec4 in_weights;
uniform uint ids;
layout(std140) uniform Joints {{ vec4 joint_rows[{3 * MAX_JOINTS}]; }};
layout(std140) uniform PrevJoints {{ vec4 prev_rows[{3 * MAX_JOINTS}]; }};
layout(std140) uniform JointLights {{ vec4 joint_lights[{MAX_JOINTS // 4}]; }};
vec4 joint_row(uint r) {{
    return joint_rows[in_joints.x * 3u + r] * in_weights.x + joint_rows[in_joints.y * 3u + r] * in_weights.y
         + joint_rows[in_joints.z * 3u + r] * in_weights.z + joint_rows[in_joints.w * 3u + r] * in_weights.w;
}}
vec4 prev_row(uint r) {{
    return prev_rows[in_joints.x * 3u + r] * in_weights.x + prev_rows[in_joints.y * 3u + r] * in_weights.y
         + prev_rows[in_joints.z * 3u + r] * in_weights.z + prev_rows[in_joints.w * 3u + r] * in_weights.w;
}}
float joint_light(uint j) {{ return joint_lights[j / 4u][j % 4u]; }}
#endif
in vec3 in_p;
vec3 rowed(vec4 a, vec4 b, vec4 c, vec3 p) {{
    return vec3(dot(a.xyz, p) + a.w, dot(b.xyz, p) + b.w, dot(c.xyz, p) + c.w);
}}
vec3 world_p() {{
#if defined(STATIC)
    return in_p;
#elif defined(INSTANCED)
    return rowed(in_m0, in_m1, in_m2, in_p);
#else
    return rowed(joint_row(0u), joint_row(1u), joint_row(2u), in_p);
#endif
}}
#ifdef OUT_FLOW
vec3 prev_p() {{
#if defined(STATIC)
    return in_p;
#elif defined(INSTANCED)
    return rowed(in_q0, in_q1, in_q2, in_p);
#else
    return rowed(prev_row(0u), prev_row(1u), prev_row(2u), in_p);
#endif
}}
#endif
"""

SURFACE_VERTEX: Final = (
    _WORLD
    + """
in vec3 in_normal;
in vec2 in_uv;
in vec4 in_light;
#if defined(VERTEX_COLOUR)
in vec4 in_colour;
out vec3 v_colour;
#endif
#if defined(OUT_COLOUR) || defined(ALPHA_MASK)
out vec2 v_uv;
#endif
#ifdef OUT_COLOUR
out vec3 v_light;
#endif
#if defined(OUT_NORMAL) || SHADING > 0
out vec3 v_normal;
#endif
#ifdef PLACED
out vec3 v_p;
#endif
#ifdef SHADOW
out vec3 v_shadow;
#endif
#ifdef OUT_IDS
flat out uint v_ids;
#endif
#ifdef OUT_FLOW
out vec3 v_prev;
#endif
vec3 cofactored(vec3 a, vec3 b, vec3 c, vec3 n) {
    // Rows of the matrix; its cofactors carry normals through any scale.
    return normalize(vec3(dot(cross(b, c), n), dot(cross(c, a), n), dot(cross(a, b), n)));
}
vec3 world_normal() {
#if defined(STATIC)
    return in_normal;
#elif defined(INSTANCED)
    return cofactored(in_m0.xyz, in_m1.xyz, in_m2.xyz, in_normal);
#else
    return cofactored(joint_row(0u).xyz, joint_row(1u).xyz, joint_row(2u).xyz, in_normal);
#endif
}
vec3 lamps_at(vec3 p, vec3 n) {
    vec3 light = vec3(0.0);
    for (int i = 0; i < int(size_px.w); ++i) {
        vec3 d = lamp_place[i].xyz - p;
        float r2 = max(dot(d, d), 1e-4);
        float reach = lamp_place[i].w > 0.0 ? clamp(1.0 - r2 * r2 * lamp_place[i].w, 0.0, 1.0) : 1.0;
        vec3 to = d * inversesqrt(r2);
        float cone = clamp((dot(-to, lamp_axis[i].xyz) - lamp_axis[i].w) * lamp_light[i].w, 0.0, 1.0);
        light += lamp_light[i].rgb * (max(dot(n, to), 0.0) * reach * reach * cone * cone / r2);
    }
    return light;
}
void main() {
    vec3 p = world_p();
    gl_Position = clip_from_world * vec4(p, 1.0);
#if defined(OUT_COLOUR) || defined(ALPHA_MASK)
    v_uv = in_uv;
#endif
#if defined(OUT_NORMAL) || SHADING > 0 || (defined(OUT_COLOUR) && !defined(STATIC))
    vec3 n = world_normal();
#endif
#if defined(OUT_NORMAL) || SHADING > 0
    v_normal = mat3(camera_from_world) * n;
#endif
#ifdef OUT_COLOUR
#if defined(STATIC)
#if SHADING == 0
    v_light = in_light.rgb * 2.0;
#else
    v_light = 4.0 * in_light.rgb * in_light.rgb;
#endif
#else
    vec3 light = mix(ground.rgb, sky.rgb, 0.5 + 0.5 * n.z) * in_light.a + lamps_at(p, n);
#if SHADING == 0
    light += sun.rgb * max(dot(n, to_sun.xyz), 0.0);
    light = pow(light, vec3(1.0 / 2.2));
#endif
#ifdef SKINNED
    light *= joint_light(in_joints.x) * in_weights.x + joint_light(in_joints.y) * in_weights.y
           + joint_light(in_joints.z) * in_weights.z + joint_light(in_joints.w) * in_weights.w;
#endif
    v_light = light;
#endif
#endif
#if defined(VERTEX_COLOUR)
#if SHADING == 0
    v_colour = pow(in_colour.rgb, vec3(1.0 / 2.2));
#else
    v_colour = in_colour.rgb;
#endif
#endif
#ifdef PLACED
    v_p = (camera_from_world * vec4(p, 1.0)).xyz;
#endif
#ifdef SHADOW
    v_shadow = (shadow_from_world * vec4(p + n * to_sun.w, 1.0)).xyz;
#endif
#ifdef OUT_IDS
#ifdef SKINNED
    v_ids = ids;
#else
    v_ids = in_ids;
#endif
#endif
#ifdef OUT_FLOW
    vec4 q = prev_clip_from_world * vec4(prev_p(), 1.0);
    v_prev = q.xyw;
#endif
}
"""
)

SURFACE_FRAGMENT: Final = """
layout(std140) uniform Surface {
    vec4 base;
    vec4 emissive;   // w: alpha cutoff
    vec4 gloss;      // metallic, roughness, normal scale, occlusion strength
};
uniform sampler2D base_map;
uniform sampler2D normal_map;
uniform sampler2D metal_rough_map;
uniform sampler2D emissive_map;
uniform sampler2D occlusion_map;
uniform sampler2DShadow shadow_map;
#if defined(OUT_COLOUR) || defined(ALPHA_MASK)
in vec2 v_uv;
#endif
#ifdef OUT_COLOUR
in vec3 v_light;
layout(location = OUT_COLOUR) out vec4 out_colour;
#endif
#if defined(VERTEX_COLOUR)
in vec3 v_colour;
#endif
#if defined(OUT_NORMAL) || SHADING > 0
in vec3 v_normal;
#endif
#ifdef PLACED
in vec3 v_p;
#endif
#ifdef SHADOW
in vec3 v_shadow;
float lit_by_sun() {
    // One look compares the four texels around it and weighs them.
    return texture(shadow_map, v_shadow);
}
#else
float lit_by_sun() { return 1.0; }
#endif
#ifdef OUT_Z
layout(location = OUT_Z) out float out_z_m;
#endif
#ifdef OUT_NORMAL
layout(location = OUT_NORMAL) out uvec2 out_normal;
#endif
#ifdef OUT_IDS
flat in uint v_ids;
layout(location = OUT_IDS) out uint out_ids;
#endif
#ifdef OUT_FLOW
in vec3 v_prev;
layout(location = OUT_FLOW) out vec2 out_flow;
#endif
#if SHADING > 1 && defined(NORMAL_MAP)
vec3 bumped(vec3 n) {
    // Tangent frame from screen derivatives: no tangents to store.
    vec3 dp1 = dFdx(v_p), dp2 = dFdy(v_p);
    vec2 du1 = dFdx(v_uv), du2 = dFdy(v_uv);
    vec3 a = cross(dp2, n), b = cross(n, dp1);
    vec3 t = a * du1.x + b * du2.x;
    vec3 s = a * du1.y + b * du2.y;
    float scale = inversesqrt(max(max(dot(t, t), dot(s, s)), 1e-20));
    vec3 m = texture(normal_map, v_uv).xyz * 2.0 - 1.0;
    m.xy *= gloss.z;
    // v grows downwards in the picture, the map's y upwards.
    return normalize(t * (scale * m.x) - s * (scale * m.y) + n * m.z);
}
#endif
#if SHADING > 1 && defined(SHINY)
vec3 mirrored(vec3 n, vec3 albedo, float metal, float rough, vec3 sunlight, inout vec3 diffuse) {
    // Cook-Torrance with GGX, height-correlated Smith and Schlick (Karis 2013); the sky as ambient mirror.
    vec3 v = normalize(-v_p);
    vec3 l = to_sun_view.xyz, h = normalize(v + l);
    float nl = max(dot(n, l), 0.0), nv = max(dot(n, v), 1e-3), nh = max(dot(n, h), 0.0);
    float a2 = pow(max(rough, 0.05), 4.0);
    vec3 f0 = mix(vec3(0.04), albedo, metal);
    float d = nh * nh * (a2 - 1.0) + 1.0;
    float visible = 0.5 / (nl * sqrt(nv * nv * (1.0 - a2) + a2) + nv * sqrt(nl * nl * (1.0 - a2) + a2) + 1e-5);
    vec3 fresnel = f0 + (1.0 - f0) * pow(1.0 - max(dot(v, h), 0.0), 5.0);
    vec3 direct = sunlight * fresnel * (a2 / (d * d) * visible);
    vec3 r = reflect(-v, n);
    vec3 around = mix(ground.rgb, sky.rgb, smoothstep(-0.5 - rough, 0.5 + rough, dot(r, up_view.xyz)));
    float edge = exp2(-9.28 * nv) * (1.0 - rough);
    vec3 ambient = around * (f0 * (1.0 - 0.5 * rough) + edge * (1.0 - f0));
    diffuse *= 1.0 - metal;
    return direct + ambient;
}
#endif
void main() {
#if defined(OUT_COLOUR) || defined(ALPHA_MASK)
    vec4 texel = texture(base_map, v_uv);
    texel = vec4(to_linear(texel.rgb), texel.a) * base;
#ifdef ALPHA_MASK
    if (texel.a < emissive.w) discard;
#endif
#endif
#ifdef DOUBLE_SIDED
    float side = gl_FrontFacing ? 1.0 : -1.0;
#else
    const float side = 1.0;
#endif
#if defined(OUT_NORMAL) || SHADING > 0
    vec3 n = normalize(v_normal) * side;  // in the camera's axes, as all light here
#endif
#ifdef OUT_COLOUR
    vec3 albedo = texel.rgb;
#ifdef VERTEX_COLOUR
    albedo *= v_colour;
#endif
#ifdef UNLIT
    vec3 colour = albedo;
#elif SHADING == 0
    vec3 colour = albedo * v_light;
#else
    vec3 m = n;
#if SHADING > 1 && defined(NORMAL_MAP)
    m = bumped(n);
#endif
    vec3 diffuse = v_light;
#if SHADING > 1 && defined(OCCLUSION)
    diffuse *= 1.0 - gloss.w * (1.0 - texture(occlusion_map, v_uv).r);
#endif
    float facing = dot(m, to_sun_view.xyz);
    vec3 sunlight = vec3(0.0);
    if (facing > 0.0) sunlight = sun.rgb * (facing * lit_by_sun());
#if SHADING > 1 && defined(SHINY)
    float metal = gloss.x, rough = gloss.y;
#ifdef METAL_ROUGH
    vec4 mr = texture(metal_rough_map, v_uv);
    metal *= mr.b;
    rough *= mr.g;
#endif
    vec3 total = diffuse + sunlight;
    vec3 shine = mirrored(m, albedo, metal, rough, sunlight, total);
    vec3 colour = albedo * total + shine;
#else
    vec3 colour = albedo * (diffuse + sunlight);
#endif
#endif
#ifdef EMISSIVE
    colour += emissive.rgb * to_linear(texture(emissive_map, v_uv).rgb);
#endif
#ifdef BLEND
    out_colour = vec4(to_display(colour), texel.a);
#else
    out_colour = vec4(to_display(colour), 1.0);
#endif
#endif
#ifdef OUT_Z
    out_z_m = 1.0 / gl_FragCoord.w;
#endif
#ifdef OUT_NORMAL
    // Halves packed by hand: reading a target of halves back costs four times as much.
    out_normal = uvec2(packHalf2x16(n.xy), packHalf2x16(vec2(n.z, 0.0)));
#endif
#ifdef OUT_IDS
    out_ids = v_ids;
#endif
#ifdef OUT_FLOW
    vec2 was = size_px.xy * (0.5 * v_prev.xy / v_prev.z + 0.5);
    out_flow = v_prev.z > 0.0 ? gl_FragCoord.xy - was : vec2(NO_FLOW);
#endif
}
"""

SKY_VERTEX: Final = """
in vec2 in_p;
out vec3 v_ray;
void main() {
    gl_Position = vec4(in_p, 1.0, 1.0);
    v_ray = mat3(world_from_ray) * vec3(in_p, 1.0);
}
"""

SKY_FRAGMENT: Final = """
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
#if SHADING == 0
    colour = pow(colour, vec3(1.0 / 2.2));
#endif
    out_colour = vec4(to_display(colour), 1.0);
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

DEPTH_FRAGMENT: Final = """
uniform sampler2D base_map;
#ifdef ALPHA_MASK
in vec2 v_uv;
#endif
void main() {
#ifdef ALPHA_MASK
    if (texture(base_map, v_uv).a < 0.5) discard;
#endif
}
"""

BLOB_VERTEX: Final = """
in vec2 in_p;
in vec3 in_place;
in vec2 in_shape;    // radius, strength
out vec2 v_p;
flat out float v_strength;
void main() {
    gl_Position = clip_from_world * vec4(in_place + vec3(in_shape.x * in_p, 0.0), 1.0);
    v_p = in_p;
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
