"""Fragment shaders of surfaces and of their depth alone; the vertex shader is in :mod:`shader_vertex`."""

from __future__ import annotations

from typing import Final

from vil_renderer.embedded.engine.shader_weather import AIR, GROUND

_FOLDED: Final = """
#if defined(MIRROR_U) || defined(MIRROR_V)
// MIRRORED_REPEAT, which moderngl does not offer: every second copy is turned around. The gradients are those of the
// coordinates before they are folded, or the crease would take its colour from the smallest mipmap.
vec4 folded(sampler2D map, vec2 uv) {
    vec2 at = uv;
#ifdef MIRROR_U
    at.x = 1.0 - abs(mod(uv.x, 2.0) - 1.0);
#endif
#ifdef MIRROR_V
    at.y = 1.0 - abs(mod(uv.y, 2.0) - 1.0);
#endif
    return textureGrad(map, at, dFdx(uv), dFdy(uv));
}
#else
vec4 folded(sampler2D map, vec2 uv) { return texture(map, uv); }
#endif
"""

SURFACE_FRAGMENT: Final = (
    """
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
"""
    + _FOLDED
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
vec3 around(vec3 n) { return mix(ground.rgb, sky.rgb, 0.5 + 0.5 * dot(n, up_view.xyz)); }
#endif
#if SHADING > 1 && defined(NORMAL_MAP)
vec3 bumped(vec3 n) {
    // Tangent frame from screen derivatives: no tangents to store.
    vec3 dp1 = dFdx(v_p), dp2 = dFdy(v_p);
    vec2 du1 = dFdx(v_uv), du2 = dFdy(v_uv);
    vec3 a = cross(n, dp2), b = cross(dp1, n);  // n looks at us, and both axes of the picture are optical
    vec3 t = a * du1.x + b * du2.x;
    vec3 s = a * du1.y + b * du2.y;
    float scale = inversesqrt(max(max(dot(t, t), dot(s, s)), 1e-20));
    vec3 m = folded(normal_map, v_uv).xyz * 2.0 - 1.0;
#ifdef MIRROR_U
    if (mod(v_uv.x, 2.0) > 1.0) m.x = -m.x;
#endif
#ifdef MIRROR_V
    if (mod(v_uv.y, 2.0) > 1.0) m.y = -m.y;
#endif
    m.xy *= gloss.z;
    // v grows downwards in the picture, the map's y upwards.
    return normalize(t * (scale * m.x) - s * (scale * m.y) + n * m.z);
}
#endif
#if SHADING > 1 && defined(SHINY)
vec3 mirrored(vec3 n, vec3 albedo, float metal, float rough, vec3 sunlight, float open, inout vec3 diffuse) {
    // Cook-Torrance with GGX, height-correlated Smith and Schlick (Karis 2013); the sky, where open, as ambient mirror.
    vec3 v = normalize(-v_p);
    vec3 l = to_sun_view.xyz, h = normalize(v + l);
    float nl = max(dot(n, l), 0.0), nv = max(dot(n, v), 1e-3), nh = max(dot(n, h), 0.0);
    float a2 = pow(max(rough, 0.05), 4.0);
    vec3 f0 = mix(vec3(0.04), albedo, metal);
    float d = nh * nh * (a2 - 1.0) + 1.0;
    float visible = 0.5 / (nl * sqrt(nv * nv * (1.0 - a2) + a2) + nv * sqrt(nl * nl * (1.0 - a2) + a2) + 1e-5);
    float graze = 1.0 - clamp(dot(v, h), 0.0, 1.0);
    vec3 fresnel = f0 + (1.0 - f0) * (graze * graze * graze * graze * graze);
    vec3 direct = sunlight * fresnel * (a2 / (d * d) * visible);
    vec3 r = reflect(-v, n);
    vec3 beyond = mix(ground.rgb, sky.rgb, smoothstep(-0.5 - rough, 0.5 + rough, dot(r, up_view.xyz)));
    float edge = exp2(-9.28 * nv) * (1.0 - rough);
    vec3 ambient = beyond * open * (f0 * (1.0 - 0.5 * rough) + edge * (1.0 - f0));
    diffuse *= 1.0 - metal;
    return direct + ambient;
}
#endif
void main() {
#if defined(OUT_COLOUR) || defined(ALPHA_MASK)
    vec4 texel = folded(base_map, v_uv);
    texel = vec4(to_linear(texel.rgb), texel.a) * base;
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
    albedo = mix(vec3(dot(albedo, vec3(0.3, 0.6, 0.1))), albedo, v_known);  // untracked parts are grey
#endif
#if defined(GROUND) && !defined(UNLIT)
    float wet;
    albedo = covered(albedo, v_world, wet);
#endif
#ifdef UNLIT
    vec3 colour = albedo;
#elif SHADING == 0
    vec3 colour = albedo * received();
#else
    vec3 m = n;
    vec3 light = received();
    vec3 diffuse = light;
#if SHADING > 1 && defined(NORMAL_MAP)
    m = bumped(n);
    // Ambient light came to n; slopes that face up get more of the sky, and lamps hang above, too.
    diffuse *= (around(m) + 1e-4) / (around(n) + 1e-4);
#endif
#if SHADING > 1 && defined(OCCLUSION)
    diffuse *= 1.0 - gloss.w * (1.0 - folded(occlusion_map, v_uv).r);
#endif
    float facing = dot(m, to_sun_view.xyz);
    vec3 sunlight = vec3(0.0);
    if (facing > 0.0) sunlight = sun.rgb * (facing * lit_by_sun());
#if SHADING > 1 && defined(SHINY)
    float metal = gloss.x, rough = gloss.y;
#ifdef METAL_ROUGH
    vec4 mr = folded(metal_rough_map, v_uv);
    metal *= mr.b;
    rough *= mr.g;
#endif
    vec3 total = diffuse + sunlight;
    float open = min(1.0, dot(light, vec3(1.0)) / (dot(around(n), vec3(1.0)) + 1e-4));
    vec3 shine = mirrored(m, albedo, metal, rough, sunlight, open, total);
    vec3 colour = albedo * total + shine;
#else
    vec3 colour = albedo * (diffuse + sunlight);
#endif
#endif
#ifdef EMISSIVE
    colour += emissive.rgb * to_linear(folded(emissive_map, v_uv).rgb);
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
#ifdef AIR
    colour = through_air(colour, gain, distance(v_world, eye.xyz));
#endif
#if SHADING == 0
    colour = pow(colour, vec3(1.0 / 2.2));
#endif
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
    """
uniform sampler2D base_map;
#ifdef ALPHA_MASK
in vec2 v_uv;
"""
    + _FOLDED
    + """
#endif
void main() {
#ifdef ALPHA_MASK
    if (folded(base_map, v_uv).a < 0.5) discard;
#endif
}
"""
)
