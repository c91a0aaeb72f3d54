"""Shaders of the weather: light through the air, what lies on the ground, and what falls."""

from __future__ import annotations

from typing import Final

AIR: Final = """
#ifdef AIR
vec3 through_air(vec3 light, float gain, float clear) {
    // Beer and Lambert, and the air's own light in place of what is lost.
    return mix(air.rgb * gain, light, clear);
}
#endif
"""

ROOFS: Final = """
#ifdef ROOFS
uniform sampler2DShadow cover_map;
float open_sky(vec3 p) {
    // What lies up to 0.3 m below a surface lies on it.
    return texture(cover_map, (p + vec3(0.0, 0.0, roof_low.w) - roof_low.xyz) * roof_scale.xyz);
}
#endif
#ifdef AIR
float clear_to(vec3 p) {
    // Rain and snow take light where the sky is open above the way, seen at four places of it.
    float covered = 0.0;
#ifdef FALLS
    for (int i = 0; i < 4; ++i)
        covered += 0.25 - 0.25 * open_sky(mix(eye.xyz, p, 0.125 + 0.25 * float(i)));
#endif
    return exp(-air.w * (1.0 - glow.w * covered) * distance(p, eye.xyz));
}
#endif
"""

GROUND: Final = """
#ifdef GROUND
float hashed(vec2 p) {
    vec3 q = fract(vec3(p.xyx) * 0.1031);
    q += dot(q, q.yzx + 33.33);
    return fract((q.x + q.y) * q.z);
}
float noise(vec2 p) {
    vec2 i = floor(p), f = fract(p);
    f = f * f * (3.0 - 2.0 * f);
    return mix(mix(hashed(i), hashed(i + vec2(1.0, 0.0)), f.x),
               mix(hashed(i + vec2(0.0, 1.0)), hashed(i + vec2(1.0, 1.0)), f.x), f.y);
}
float patches(vec2 p) {
    return 0.55 * noise(p) + 0.3 * noise(2.7 * p + 11.0) + 0.15 * noise(7.1 * p + 5.0);
}
vec3 of_display(vec3 c) {
#if SHADING == 0
    return pow(c, vec3(1.0 / 2.2));
#else
    return c;
#endif
}
#ifdef GROUND_LEAVES
vec3 leaf_colour(float seed) {
    return mix(vec3(0.42, 0.10, 0.02), vec3(0.55, 0.36, 0.05), seed)
        * (0.6 + 0.4 * fract(7.0 * seed));
}
float leaf(vec2 at) {
    // Five lobes and a stem.
    float a = atan(at.x, at.y), r = length(at);
    float edge = 0.62 + 0.26 * cos(5.0 * a) + 0.08 * cos(15.0 * a);
    return max(smoothstep(0.08, -0.08, r - edge),
        float(abs(at.x) < 0.06 && at.y < 0.0 && at.y > -0.95));
}
vec4 leaves_on(vec2 p, float amount) {
    // Colour, and whether a leaf lies there; far away the mean.
    float cell = 0.16, px = length(fwidth(p)) / cell;
    vec4 found = vec4(0.0);
    for (int layer = 0; layer < 3; ++layer) {
        vec2 q = p / cell + 17.3 * float(layer), i = floor(q);
        p = mat2(0.54, 0.84, -0.84, 0.54) * p;  // the cells of the next layer lie across these
        float seed = hashed(i + 3.7), there = step(seed, amount);
        vec2 middle = vec2(hashed(i + 41.0), hashed(i + 87.0)) * 0.16 - 0.08;
        float turn = 6.2832 * hashed(i + 133.0), s = sin(turn), c = cos(turn);
        vec2 at = mat2(c, s, -s, c) * (fract(q) - 0.5 - middle) / 0.42;
        float on = there * mix(leaf(at), 0.23, smoothstep(0.3, 0.9, px));
        found = mix(found, vec4(leaf_colour(hashed(i + 211.0)), 1.0), on);
    }
    return vec4(mix(found.rgb, vec3(0.36, 0.17, 0.03), smoothstep(0.3, 0.9, px)), found.a);
}
#endif
#ifdef GROUND_SNOW
float snow_on(vec3 p, float bare) {
    float lies = smoothstep(bare - 0.12, bare + 0.12, 1.3 * cover.y - 0.14);
    return lies * smoothstep(0.35, 0.75, v_slope);
}
#endif
#ifdef GROUND_SNOW
vec3 snow_colour(vec3 p, float drift) {
    // Fresh snow returns 0.8 to 0.9; drifts, crusts and grains of it differ. Details below a pixel
    // have their mean.
    float px = length(fwidth(p.xy));
    float crust = noise(9.0 * p.xy + 31.0) - 0.5, grain = noise(70.0 * p.xy) - 0.5;
    crust *= smoothstep(0.12, 0.04, px);
    grain *= smoothstep(0.015, 0.005, px);
    return vec3(0.85, 0.87, 0.91) * (1.0 + 0.22 * (drift - 0.5) + 0.12 * crust + 0.14 * grain);
}
#endif
vec3 covered(vec3 albedo, vec3 p, out float wet) {
    float snow = 0.0, flat_up = smoothstep(0.6, 0.9, v_slope), open = 1.0;
#ifdef ROOFS
    open = open_sky(p);
    flat_up *= open;
#endif
#ifdef GROUND_SNOW
    float bare = patches(1.1 * p.xy);
    snow = open * snow_on(p, bare);
#endif
    wet = cover.x * flat_up * (1.0 - snow);
#ifdef GROUND_WETNESS
    albedo *= of_display(vec3(1.0 - 0.55 * wet));  // water in the pores returns less light
#endif
#ifdef GROUND_LEAVES
    vec4 lying = leaves_on(p.xy, cover.z);
    lying.a *= flat_up * (1.0 - 0.7 * snow);
    albedo = mix(albedo, of_display(lying.rgb), lying.a);
    wet *= 1.0 - 0.8 * lying.a;
#endif
#ifdef GROUND_SNOW
    albedo = mix(albedo, of_display(snow_colour(p, bare)) / max(v_shade, 0.2), snow);
#endif
    return albedo;
}
#ifdef GROUND_WETNESS
vec3 with_water(vec3 light, vec3 p, float wet, float gain) {
    // A film that mirrors the sky: Schlick's law for water; puddles where the ground is low.
    vec3 ray = normalize(p - eye.xyz);
    float puddle = smoothstep(0.62, 0.50, patches(0.45 * p.xy) + 0.35 * (1.0 - cover.x));
    float graze = 1.0 - clamp(-ray.z, 0.0, 1.0);
    float fresnel = 0.02 + 0.98 * pow(graze, 5.0);
    float mirrors = wet * fresnel * mix(0.35, 1.0, puddle * smoothstep(0.95, 0.995, v_slope));
    return mix(light, glow.rgb * gain, mirrors);
}
#endif
#endif
"""

PARTICLE_VERTEX: Final = """
in vec2 in_p;
in vec3 in_place;   // from the eye, world axes
in vec3 in_v;
in vec4 in_look;    // diameter, real particles, turn, kind and a share
out vec2 v_p;
flat out vec4 v_tint;
flat out vec2 v_shape;  // half length over half width of a streak, kind
const float CUBES[4] = float[4](CUBES_M);
void main() {
    float kind = floor(in_look.w), seed = fract(in_look.w), away = length(in_place);
    vec3 ahead = in_place / max(away, 1e-3);
    vec3 along = 0.5 * moment.z * in_v;
    vec3 seen = along - dot(along, ahead) * ahead;
    vec3 u = normalize(seen + 1e-5 * vec3(0.3, 0.7, -0.6)), w = cross(ahead, u);
    float width = max(in_look.x, moment.w * away);  // a pixel at least, fainter in exchange
    float length_m = 2.0 * length(seen);
    vec2 at = in_p;
    if (kind == 3.0) {
        float s = sin(in_look.z), c = cos(in_look.z);
        at = mat2(c, s, -s, c) * vec2(in_p.x * (0.25 + 0.75 * abs(cos(2.3 * in_look.z))), in_p.y);
    }
    vec3 corner = in_place + along * in_p.y * float(kind != 3.0)
        + 0.5 * width * (u * at.y + w * at.x);
    gl_Position = clip_from_world * vec4(eye.xyz + corner, 1.0);
    float area_m2 = width * (width + length_m * float(kind != 3.0));
    float share = min(1.0, in_look.x * in_look.x / area_m2);
    float opacity = 1.0 - pow(1.0 - 0.8 * share, in_look.y);
    float reach = 0.5 * CUBES[int(kind)];
    opacity *= smoothstep(reach, 0.7 * reach, away) * smoothstep(0.15, 0.5, away);
    vec3 colour = kind == 0.0 ? vec3(1.0) : kind == 1.0 ? vec3(1.25) : vec3(0.62, 0.46, 0.28);
    if (kind == 3.0) colour = 1.4 * mix(vec3(0.42, 0.10, 0.02), vec3(0.55, 0.36, 0.05), seed);
    v_tint = vec4(colour, opacity);
    v_shape = vec2(kind == 3.0 ? 0.0 : length_m / width, kind);
    v_p = in_p;
}
"""

PARTICLE_FRAGMENT: Final = """
in vec2 v_p;
flat in vec4 v_tint;
flat in vec2 v_shape;
layout(location = 0) out vec4 out_colour;
void main() {
    float inside;
    if (v_shape.y == 3.0) {
        float a = atan(v_p.x, v_p.y);
        inside = smoothstep(0.06, -0.06,
            length(v_p) - (0.66 + 0.26 * cos(5.0 * a) + 0.08 * cos(15.0 * a)));
    } else {
        float end = max(abs(v_p.y) * (1.0 + v_shape.x) - v_shape.x, 0.0);
        inside = smoothstep(1.0, 0.5, length(vec2(v_p.x, end)));
    }
#if SHADING == 0
    vec3 colour = pow(v_tint.rgb * glow.rgb * pow(exposure.x, 2.2), vec3(1.0 / 2.2));
#else
    vec3 colour = v_tint.rgb * glow.rgb * exposure.x;
#endif
    out_colour = vec4(to_picture(colour), inside * v_tint.a);
}
"""
