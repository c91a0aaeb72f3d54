"""Fragment shaders of surfaces and of their depth alone.

The vertex shader is in :mod:`shader_vertex`.
"""

from __future__ import annotations

from typing import Final

from vil_renderer.embedded.assets.model import MAPS
from vil_renderer.embedded.engine.shader_finishes import FINISHES
from vil_renderer.embedded.engine.shader_weather import AIR, GROUND, ROOFS

_SURFACE: Final = (
    """
layout(std140) uniform Surface {
    vec4 base;
    vec4 emissive;   // w: alpha cutoff
    vec4 gloss;      // metallic, roughness, normal scale, occlusion strength
#ifdef FINISHED
    vec4 coat;       // factor, roughness, normal scale
    vec4 mirror;     // light that is mirrored face on, w: factor on the whole mirror
    vec4 sheen;      // w: roughness
    vec4 through;    // factor on the light that passes, w: its share
#endif
#ifdef OWN_UV
"""
    + f"    vec4 uv_u[{len(MAPS)}];  // factors on u and v, offset, w: which coordinates\n"
    + f"    vec4 uv_v[{len(MAPS)}];  // w: 1 = copies along u are mirrored, 2 = along v, 3 = both\n"
    + """
#endif
};
uniform sampler2D base_map;
"""
    + "".join(f"const int AT_{name.upper()} = {index};\n" for index, name in enumerate(MAPS))
)

_SAMPLED: Final = """
in vec2 v_uv;
#ifdef OWN_UV
in vec2 v_uv1;
vec2 uv_at(int k) {
    vec3 from = vec3(uv_u[k].w > 0.5 ? v_uv1 : v_uv, 1.0);
    return vec2(dot(uv_u[k].xyz, from), dot(uv_v[k].xyz, from));
}
bvec2 mirrors_at(int k) { return bvec2(int(uv_v[k].w) % 2 == 1, uv_v[k].w > 1.5); }
#define MIRRORS 1
#else
vec2 uv_at(int k) { return v_uv; }
#if defined(MIRROR_U) && defined(MIRROR_V)
bvec2 mirrors_at(int k) { return bvec2(true, true); }
#define MIRRORS 1
#elif defined(MIRROR_U)
bvec2 mirrors_at(int k) { return bvec2(true, false); }
#define MIRRORS 1
#elif defined(MIRROR_V)
bvec2 mirrors_at(int k) { return bvec2(false, true); }
#define MIRRORS 1
#endif
#endif
#ifdef MIRRORS
// MIRRORED_REPEAT, which moderngl does not offer: every second copy is turned around. The gradients
// are those of the coordinates before they are folded, or the crease would take its colour from the
// smallest mipmap.
vec4 sampled(sampler2D map, int k) {
    vec2 uv = uv_at(k);
    return textureGrad(map, mix(uv, 1.0 - abs(mod(uv, 2.0) - 1.0), mirrors_at(k)), dFdx(uv),
        dFdy(uv));
}
#else
vec4 sampled(sampler2D map, int k) { return texture(map, uv_at(k)); }
#endif
"""

SURFACE_FRAGMENT: Final = (
    _SURFACE
    + "".join(f"uniform sampler2D {name}_map;\n" for name in MAPS[1:])
    + """
uniform sampler2DShadow shadow_map;
#if defined(OUT_COLOUR) || defined(ALPHA_MASK)
"""
    + _SAMPLED
    + """
#endif
#if defined(AIR) || defined(GROUND)
in vec3 v_world;
#endif
#ifdef GROUND
in float v_slope;
in float v_shade;
#endif
"""
    + AIR
    + ROOFS
    + GROUND
    + """
#ifdef OUT_COLOUR
in vec3 v_light;
#ifdef LIGHTMAP
uniform sampler2D light_map;
in vec2 v_atlas;
vec3 received() {
    vec3 stored = LIGHT_STEPS * texture(light_map, v_atlas).rgb;
#if SHADING == 0
    return v_light + stored;
#else
    return v_light + stored * stored;
#endif
}
#else
vec3 received() { return v_light; }
#endif
#ifdef UNTRACKED
in float v_known;
#endif
layout(location = OUT_COLOUR) out vec4 out_colour;
#endif
#if defined(VERTEX_COLOUR)
in vec3 v_colour;
#endif
#ifdef VERTEX_ALPHA
in float v_alpha;
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
    // One lookup compares the four texels around it and weighs them.
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
in vec3 v_moved;   // x, y and w of clip space since the previous picture
layout(location = OUT_FLOW) out vec2 out_flow;
#endif
#ifdef PLACED
#if defined(PROBED) && defined(OUT_COLOUR)
flat in vec3 v_above;
flat in vec3 v_below;
vec3 beyond(float up) { return mix(max(v_below, 0.0), max(v_above, 0.0), up); }
#else
vec3 beyond(float up) { return mix(ground.rgb, sky.rgb, up); }
#endif
vec3 around(vec3 n) { return beyond(0.5 + 0.5 * dot(n, up_view.xyz)); }
#endif
#if SHADING > 1 && (defined(NORMAL_MAP) || defined(COAT_NORMAL_MAP))
vec3 bumped(sampler2D map, int k, float depth, vec3 n) {
    // Tangent frame from screen derivatives: no tangents to store.
    vec2 uv = uv_at(k);
    vec3 dp1 = dFdx(v_p), dp2 = dFdy(v_p);
    vec2 du1 = dFdx(uv), du2 = dFdy(uv);
    // n looks at us, and both axes of the picture are optical
    vec3 a = cross(n, dp2), b = cross(dp1, n);
    vec3 t = a * du1.x + b * du2.x;
    vec3 s = a * du1.y + b * du2.y;
    float scale = inversesqrt(max(max(dot(t, t), dot(s, s)), 1e-20));
    vec3 m = sampled(map, k).xyz * 2.0 - 1.0;
#ifdef MIRRORS
    bvec2 turned = mirrors_at(k);
    if (turned.x && mod(uv.x, 2.0) > 1.0) m.x = -m.x;
    if (turned.y && mod(uv.y, 2.0) > 1.0) m.y = -m.y;
#endif
    m.xy *= depth;
    // v grows downwards in the picture, the map's y upwards.
    return normalize(t * (scale * m.x) - s * (scale * m.y) + n * m.z);
}
#endif
"""
    + FINISHES
    + """
void main() {
#if defined(OUT_COLOUR) || defined(ALPHA_MASK)
    vec4 texel = sampled(base_map, AT_BASE);
    texel = vec4(to_linear(texel.rgb), texel.a) * base;
#ifdef VERTEX_ALPHA
    texel.a *= v_alpha;
#endif
#ifdef ALPHA_MASK
    if (texel.a < emissive.w) discard;
#endif
#endif
#if defined(OUT_NORMAL) || SHADING > 0
    vec3 n = normalize(v_normal);  // in the camera's axes, as all light here
#endif
#ifdef OUT_COLOUR
    vec3 albedo = texel.rgb;
#ifdef VERTEX_COLOUR
    albedo *= v_colour;
#endif
#ifdef UNTRACKED
    // untracked parts are grey
    albedo = mix(vec3(dot(albedo, vec3(0.3, 0.6, 0.1))), albedo, v_known);
#endif
#if defined(GROUND) && !defined(UNLIT)
    float wet;
    albedo = covered(albedo, v_world, wet);
#endif
#ifdef UNLIT
    vec3 colour = albedo;
#elif SHADING == 0
    vec3 colour = albedo * received();
#ifdef TRANSMISSION
    colour *= 1.0 - share_through(gloss.x);
#endif
#else
    vec3 m = n;
    vec3 light = received();
    vec3 diffuse = light;
#if SHADING > 1 && defined(NORMAL_MAP)
    m = bumped(normal_map, AT_NORMAL, gloss.z, n);
    // Ambient light came to n; slopes that face up get more of the sky, and lamps hang above, too.
    diffuse *= (around(m) + 1e-4) / (around(n) + 1e-4);
#endif
#if SHADING > 1 && defined(OCCLUSION)
    diffuse *= 1.0 - gloss.w * (1.0 - sampled(occlusion_map, AT_OCCLUSION).r);
#endif
    float facing = dot(m, to_sun_view.xyz);
    float lit = facing > 0.0 ? lit_by_sun() : 0.0;
    vec3 sunlight = sun.rgb * (max(facing, 0.0) * lit);
#if SHADING > 1 && defined(SHINY)
    float metal = gloss.x, rough = gloss.y;
#ifdef METAL_ROUGH
    vec4 mr = sampled(metal_rough_map, AT_METAL_ROUGH);
    metal *= mr.b;
    rough *= mr.g;
#endif
    vec3 f0 = vec3(0.04), f90 = vec3(1.0);
#ifdef SPECULAR
    float weight = mirror.w;
#ifdef SPECULAR_MAP
    weight *= sampled(specular_map, AT_SPECULAR).a;
#endif
    f0 = mirror.rgb;
#ifdef SPECULAR_COLOUR_MAP
    f0 *= to_linear(sampled(specular_colour_map, AT_SPECULAR_COLOUR).rgb);
#endif
    f0 = min(f0, 1.0) * weight;
    f90 = vec3(mix(weight, 1.0, metal));
#endif
    f0 = mix(f0, albedo, metal);
    vec3 total = diffuse + sunlight;
    float open = min(1.0, dot(light, vec3(1.0)) / (dot(around(n), vec3(1.0)) + 1e-4));
    vec3 shine = mirrored(m, f0, f90, rough, sunlight, open);
    total *= 1.0 - metal;
#ifdef TRANSMISSION
    total *= 1.0 - share_through(metal);
#endif
    vec3 colour = albedo * total + shine;
#ifdef SHEEN
    colour = with_sheen(colour, m, sunlight, open);
#endif
#else
    vec3 colour = albedo * (diffuse + sunlight);
#ifdef TRANSMISSION
    colour *= 1.0 - share_through(gloss.x);
#endif
#endif
#endif
#ifdef EMISSIVE
    vec3 own = emissive.rgb * to_linear(sampled(emissive_map, AT_EMISSIVE).rgb);
#if defined(TONED) && SHADING == 0
    own *= pow(exposure.y, 1.0 / 2.2);
#elif defined(TONED)
    own *= exposure.y;
#endif
    colour += own;
#endif
#if SHADING > 1 && defined(COAT)
    colour = with_coat(colour, n, lit, open);
#endif
    colour *= exposure.x;
#if defined(AIR) || (defined(GROUND_WETNESS) && !defined(UNLIT))
#if SHADING == 0
    float gain = pow(exposure.x, 2.2);
    colour = pow(colour, vec3(2.2));
#else
    float gain = exposure.x;
#endif
#if defined(GROUND_WETNESS) && !defined(UNLIT)
    colour = with_water(colour, v_world, wet, gain);
#endif
#if defined(AIR) && defined(TRANSMISSION)
    // The air before it is in what is behind it already.
    float clear = clear_to(v_world);
    colour *= clear;
#elif defined(AIR)
    colour = through_air(colour, gain, clear_to(v_world));
#endif
#if SHADING == 0
    colour = pow(colour, vec3(1.0 / 2.2));
#endif
#endif
#ifdef BLEND
    float alpha = texel.a;
#else
    float alpha = 1.0;
#endif
#if !defined(TRANSMISSION)
    out_colour = vec4(to_picture(colour), alpha);
#elif !defined(FILTER)
    out_colour = vec4(alpha * to_picture(colour), 0.0);
#else
    // The factor on what is behind; the light of the surface itself is added in a second pass.
#if SHADING > 1 && defined(SHINY)
    float share = share_through(metal);
#else
    float share = share_through(gloss.x);
#endif
#ifdef AIR
    alpha *= clear;
#endif
    vec3 left = 1.0 - alpha * (1.0 - share * albedo * passing());
    out_colour = vec4(to_display(left), 1.0 - max(left.r, max(left.g, left.b)));
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
    vec2 here = 2.0 * gl_FragCoord.xy / size_px.xy - 1.0;
    float prev_w = 1.0 / gl_FragCoord.w - v_moved.z;
    vec2 moved = 0.5 * size_px.xy * (v_moved.xy - here * v_moved.z) / prev_w;
    moved *= step(1e-6, dot(moved, moved));  // static surfaces have none, not that of rounded poses
    out_flow = prev_w > 0.0 ? moved : vec2(NO_FLOW);
#endif
}
"""
)

DEPTH_FRAGMENT: Final = (
    "#ifdef ALPHA_MASK\n"
    + _SURFACE
    + _SAMPLED
    + """
#ifdef VERTEX_ALPHA
in float v_alpha;
#endif
void main() {
    float alpha = sampled(base_map, AT_BASE).a * base.a;
#ifdef VERTEX_ALPHA
    alpha *= v_alpha;
#endif
    if (alpha < emissive.w) discard;
}
#else
void main() {}
#endif
"""
)
