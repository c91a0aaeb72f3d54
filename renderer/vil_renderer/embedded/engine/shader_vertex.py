"""The surface shader, cut to size by defines.

Clip space keeps the optical axes (y down), so that the first row read back is the top row, and its
w is the z-depth: ``1 / gl_FragCoord.w`` gives that back, exact on planes.

Defines of the surface shader: one of STATIC (vertices in the world, light baked; LIGHTMAP: most of
it in an atlas), INSTANCED (rows of matrices) and SKINNED (with UNTRACKED where some joints are);
SHADING 0, 1 or 2 (:class:`~.profiles.Shading`); MORPH with the number of targets; SHADOW; LAMPS; of
materials ALPHA_MASK, BLEND, VERTEX_COLOUR, VERTEX_ALPHA, NORMAL_MAP, METAL_ROUGH, EMISSIVE,
OCCLUSION, MIRROR_U, MIRROR_V, OWN_UV, SHINY, UNLIT, COAT, SPECULAR, SHEEN and TRANSMISSION
(FINISHED = one of the last four), with _MAP behind them their maps; FILTER in the first of a
transmitting surface's two passes; PROBED: each model has its own ambient light; TONED: pictures
have the tone curve; AIR, GROUND, ROOFS, FALLS and WIND of the weather; OUT_COLOUR, OUT_Z,
OUT_NORMAL, OUT_IDS, OUT_FLOW with their locations.
"""

from __future__ import annotations

from typing import Final

_WORLD: Final = """
#ifdef INSTANCED
in vec4 in_m0; in vec4 in_m1; in vec4 in_m2;
#ifdef OUT_FLOW
in vec4 in_d0; in vec4 in_d1; in vec4 in_d2;
#endif
in uint in_ids;
#ifdef PROBED
in int number;
#endif
#endif
#ifdef STATIC
in uint in_ids;
#endif
#ifdef SKINNED
in uvec4 in_joints; in vec4 in_weights;
uniform uint ids;
uniform int number;  // among all models
// Rows of the joints' matrices, of their change since the previous picture, and how well each is
// known: llvmpipe fetches texels faster than elements of a uniform block.
uniform sampler2D joint_map;
vec4 joint_row(uint r, int when) {
    return texelFetch(joint_map, ivec2(in_joints.x * 3u + r, when), 0) * in_weights.x
         + texelFetch(joint_map, ivec2(in_joints.y * 3u + r, when), 0) * in_weights.y
         + texelFetch(joint_map, ivec2(in_joints.z * 3u + r, when), 0) * in_weights.z
         + texelFetch(joint_map, ivec2(in_joints.w * 3u + r, when), 0) * in_weights.w;
}
#endif
in vec3 in_p;
#ifdef MORPH
// Two texels to each target of each vertex: the offsets of its place and of its normal.
uniform sampler2D morph_map;
uniform vec4 morph_weights[MORPH];  // x: now beyond rest, y: the change since the previous picture
vec3 morphed(int which, int when) {
    vec3 sum = vec3(0.0);
    int first = gl_VertexID * MORPH;
    int width = textureSize(morph_map, 0).x;
    for (int i = 0; i < MORPH; ++i) {
        float weight = morph_weights[i][when];
        if (weight == 0.0) continue;
        int texel = 2 * (first + i) + which;
        sum += weight * texelFetch(morph_map, ivec2(texel % width, texel / width), 0).xyz;
    }
    return sum;
}
vec3 local_p() { return in_p + morphed(0, 0); }
vec3 local_normal(vec3 n) { return n + morphed(1, 0); }
#else
vec3 local_p() { return in_p; }
vec3 local_normal(vec3 n) { return n; }
#endif
vec3 rowed(vec4 a, vec4 b, vec4 c, vec3 p) {
    return vec3(dot(a.xyz, p) + a.w, dot(b.xyz, p) + b.w, dot(c.xyz, p) + c.w);
}
#if defined(WIND) && defined(STATIC)
vec3 swayed(float phase) {
    if (in_ids >> 16u != VEGETATION) return vec3(0.0);
    float bend = clamp(0.1 * in_p.z, 0.0, 1.5), at = 0.35 * in_p.x + 0.23 * in_p.y;
    return wind.xyz * (bend * sqrt(bend)
        * (0.6 + 0.3 * sin(phase + at) + 0.1 * sin(3.0 * phase + 2.0 * at)));
}
#endif
vec3 world_p() {
#if defined(STATIC)
#ifdef WIND
    return in_p + swayed(moment.x);
#else
    return in_p;
#endif
#elif defined(INSTANCED)
    return rowed(in_m0, in_m1, in_m2, local_p());
#else
    return rowed(joint_row(0u, NOW), joint_row(1u, NOW), joint_row(2u, NOW), local_p());
#endif
}
#ifdef OUT_FLOW
#ifdef MORPH
vec4 bare(vec4 row) { return vec4(row.xyz, 0.0); }
// M p - (M - D) (p - moved) = D (p - moved) + M moved, all zero without motion.
vec3 morph_motion(vec3 moved) {
#ifdef INSTANCED
    return rowed(in_d0, in_d1, in_d2, local_p() - moved)
        + rowed(bare(in_m0), bare(in_m1), bare(in_m2), moved);
#else
    return rowed(joint_row(0u, MOVED), joint_row(1u, MOVED), joint_row(2u, MOVED),
                 local_p() - moved)
         + rowed(bare(joint_row(0u, NOW)), bare(joint_row(1u, NOW)), bare(joint_row(2u, NOW)),
                 moved);
#endif
}
#endif
vec3 world_motion() {
#if defined(STATIC)
#ifdef WIND
    return swayed(moment.x) - swayed(moment.y);
#else
    return vec3(0.0);
#endif
#elif defined(MORPH)
    return morph_motion(morphed(0, 1));
#elif defined(INSTANCED)
    return rowed(in_d0, in_d1, in_d2, in_p);
#else
    return rowed(joint_row(0u, MOVED), joint_row(1u, MOVED), joint_row(2u, MOVED), in_p);
#endif
}
#endif
"""

SURFACE_VERTEX: Final = (
    _WORLD
    + """
in vec3 in_normal;
in vec2 in_uv;
#ifdef STATIC
in vec4 in_light;
#endif
#if defined(LIGHTMAP) && defined(OUT_COLOUR)
in vec2 in_atlas;
out vec2 v_atlas;
#endif
#if defined(VERTEX_COLOUR) || defined(VERTEX_ALPHA)
in vec4 in_colour;
#endif
#if defined(VERTEX_COLOUR)
out vec3 v_colour;
#endif
#ifdef VERTEX_ALPHA
out float v_alpha;
#endif
#if defined(OUT_COLOUR) || defined(ALPHA_MASK)
out vec2 v_uv;
#ifdef OWN_UV
in vec2 in_uv1;
out vec2 v_uv1;
#endif
#endif
#if defined(AIR) || defined(GROUND)
out vec3 v_world;
#endif
#ifdef GROUND
out float v_slope;
out float v_shade;  // of the vertex colour in the light
#endif
#ifdef OUT_COLOUR
out vec3 v_light;
#ifdef UNTRACKED
out float v_known;
#endif
#ifdef PROBED
uniform sampler2D model_light;
#ifdef PLACED
flat out vec3 v_above;
flat out vec3 v_below;
#endif
#endif
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
out vec3 v_moved;
#endif
vec3 cofactored(vec3 a, vec3 b, vec3 c, vec3 n) {
    // Rows of the matrix; its cofactors carry normals through any scale, in a mirror inside out.
    vec3 bc = cross(b, c);
    return normalize(vec3(dot(bc, n), dot(cross(c, a), n), dot(cross(a, b), n))) * sign(dot(a, bc));
}
vec3 world_normal() {
#if defined(STATIC)
    return in_normal;
#elif defined(INSTANCED)
    return cofactored(in_m0.xyz, in_m1.xyz, in_m2.xyz, local_normal(in_normal));
#else
    return cofactored(joint_row(0u, NOW).xyz, joint_row(1u, NOW).xyz, joint_row(2u, NOW).xyz,
        local_normal(in_normal));
#endif
}
#if defined(PROBED) && defined(OUT_COLOUR)
vec3 around_at(vec3 n, out float sunlit) {
    ivec2 at = ivec2(number % PER_ROW * TERMS, number / PER_ROW);
    vec4 t[TERMS];
    for (int i = 0; i < TERMS; ++i) t[i] = texelFetch(model_light, at + ivec2(i, 0), 0);
    sunlit = t[0].a;
#ifdef PLACED
    v_above = t[2].rgb + t[5].rgb;
    v_below = t[2].rgb - t[5].rgb;
#endif
    return max(n.x * (n.x * t[0].rgb + t[3].rgb + n.y * t[6].rgb)
             + n.y * (n.y * t[1].rgb + t[4].rgb + n.z * t[7].rgb)
             + n.z * (n.z * t[2].rgb + t[5].rgb + n.x * t[8].rgb), 0.0);
}
#endif
#ifdef LAMPS
vec3 lamps_at(vec3 p, vec3 n) {
    vec3 light = vec3(0.0);
    for (int i = 0; i < int(size_px.w); ++i) {
        vec3 d = lamp_place[i].xyz - p;
        float r2 = max(dot(d, d), 1e-4);
        float reach = lamp_place[i].w > 0.0 ? clamp(1.0 - r2 * r2 * lamp_place[i].w, 0.0, 1.0)
            : 1.0;
        vec3 to = d * inversesqrt(r2);
        float cone = clamp((dot(-to, lamp_axis[i].xyz) - lamp_axis[i].w) * lamp_light[i].w, 0.0,
            1.0);
        light += lamp_light[i].rgb * (max(dot(n, to), 0.0) * reach * reach * cone * cone / r2);
    }
    return light;
}
#endif
void main() {
    vec3 p = world_p();
    gl_Position = clip_from_world * vec4(p, 1.0);
#if defined(AIR) || defined(GROUND)
    v_world = p;
#endif
#ifdef GROUND
    v_slope = world_normal().z;
    v_shade = in_light.a;
#endif
#if defined(OUT_COLOUR) || defined(ALPHA_MASK)
    v_uv = in_uv;
#ifdef OWN_UV
    v_uv1 = in_uv1;
#endif
#endif
#ifdef VERTEX_ALPHA
    v_alpha = in_colour.a;
#endif
#if defined(OUT_NORMAL) || SHADING > 0 || (defined(OUT_COLOUR) && !defined(STATIC))
    vec3 n = world_normal();
#endif
#if defined(OUT_NORMAL) || SHADING > 0
    v_normal = mat3(camera_from_world) * n;
#endif
#ifdef OUT_COLOUR
#ifdef LIGHTMAP
    v_atlas = in_atlas;
#endif
#if defined(STATIC)
#if SHADING == 0
    v_light = LIGHT_STEPS * in_light.rgb;
#else
    v_light = (LIGHT_STEPS * LIGHT_STEPS) * in_light.rgb * in_light.rgb;
#endif
#else
    float sunlit = 1.0;
#ifdef PROBED
    vec3 light = around_at(n, sunlit);
#else
    vec3 light = mix(ground.rgb, sky.rgb, 0.5 + 0.5 * n.z);
#endif
#ifdef LAMPS
    light += lamps_at(p, n);
#endif
#if SHADING == 0
    light += sun.rgb * (sunlit * max(dot(n, to_sun.xyz), 0.0));
    light = pow(light, vec3(1.0 / 2.2));
#endif
#ifdef UNTRACKED
    v_known = joint_row(0u, KNOWN).x;
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
    vec3 lift = n * to_sun.w;
    v_shadow = (shadow_from_world * vec4(p + lift, 1.0)).xyz;
#endif
#ifdef OUT_IDS
#ifdef SKINNED
    v_ids = ids;
#else
    v_ids = in_ids;
#endif
#endif
#ifdef OUT_FLOW
    // Every term has a difference of matrices as a factor: 0 without motion, however the machine
    // rounds.
    vec3 moved = world_motion();
    v_moved = (clip_motion * vec4(p - moved, 1.0) + clip_from_world * vec4(moved, 0.0)).xyw;
#endif
}
"""
)
