"""Parts of the fragment shader for mirrors, sheen, coat and light that passes through a surface."""

from __future__ import annotations

from typing import Final

FINISHES: Final = """
#if SHADING > 1 && defined(SHINY)
vec3 mirrored(vec3 n, vec3 f0, vec3 f90, float rough, vec3 sunlight, float open) {
    // Cook-Torrance with GGX, height-correlated Smith and Schlick (Karis 2013); the sky, where
    // open, as ambient mirror.
    vec3 v = normalize(-v_p);
    vec3 l = to_sun_view.xyz, h = normalize(v + l);
    float nl = max(dot(n, l), 0.0), nv = max(dot(n, v), 1e-3), nh = max(dot(n, h), 0.0);
    float a2 = pow(max(rough, 0.05), 4.0);
    float d = nh * nh * (a2 - 1.0) + 1.0;
    float visible = 0.5 / (nl * sqrt(nv * nv * (1.0 - a2) + a2)
        + nv * sqrt(nl * nl * (1.0 - a2) + a2) + 1e-5);
    float graze = 1.0 - clamp(dot(v, h), 0.0, 1.0);
    vec3 fresnel = f0 + (f90 - f0) * (graze * graze * graze * graze * graze);
    vec3 direct = sunlight * fresnel * (a2 / (d * d) * visible);
    vec3 r = reflect(-v, n);
    vec3 seen = beyond(smoothstep(-0.5 - rough, 0.5 + rough, dot(r, up_view.xyz)));
    float edge = exp2(-9.28 * nv) * (1.0 - rough);
    vec3 ambient = seen * open * (f0 * (1.0 - 0.5 * rough) + edge * (f90 - f0));
    return direct + ambient;
}
#endif
#if SHADING > 1 && defined(SHEEN)
// Charlie's distribution (Estevez and Kulla 2017) with Neubelt and Pettineo's visibility. The share
// of light that it sends back is their integral, fitted within 0.09 for roughness 0.2 to 1; the
// surface below gets the rest.
vec3 with_sheen(vec3 below, vec3 n, vec3 sunlight, float open) {
    vec3 fibres = sheen.rgb;
    float rough = sheen.w;
#ifdef SHEEN_MAP
    fibres *= to_linear(sampled(sheen_map, AT_SHEEN).rgb);
#endif
#ifdef SHEEN_ROUGH_MAP
    rough *= sampled(sheen_rough_map, AT_SHEEN_ROUGH).a;
#endif
    rough = clamp(rough, 0.2, 1.0);
    vec3 v = normalize(-v_p), l = to_sun_view.xyz, h = normalize(v + l);
    float nl = max(dot(n, l), 0.0), nv = max(dot(n, v), 1e-3), nh = max(dot(n, h), 0.0);
    float turns = 1.0 / (rough * rough);
    float bright = 0.5 * (2.0 + turns) * pow(max(1.0 - nh * nh, 1e-4), 0.5 * turns);
    vec3 direct = sunlight * bright / (4.0 * (nl + nv - nl * nv) + 1e-4);
    float flat_on = rough * (0.7733 - 0.3624 * rough) - 0.2263;
    float aside = rough * (0.9011 * rough - 2.1677) + 1.7736;
    float share = clamp(flat_on + aside * exp(-4.0 * nv), 0.0, 1.0);
    float most = max(fibres.r, max(fibres.g, fibres.b));
    return below * (1.0 - most * share) + fibres * (direct + around(n) * (open * share));
}
#endif
#if SHADING > 1 && defined(COAT)
vec3 with_coat(vec3 below, vec3 n, float lit, float open) {
    float share = coat.x, rough = coat.y;
#ifdef COAT_MAP
    share *= sampled(coat_map, AT_COAT).r;
#endif
#ifdef COAT_ROUGH_MAP
    rough *= sampled(coat_rough_map, AT_COAT_ROUGH).g;
#endif
#ifdef COAT_NORMAL_MAP
    n = bumped(coat_normal_map, AT_COAT_NORMAL, coat.z, n);
#endif
    float graze = 1.0 - clamp(dot(n, normalize(-v_p)), 0.0, 1.0);
    float back = share * (0.04 + 0.96 * graze * graze * graze * graze * graze);
    vec3 sunlight = sun.rgb * (max(dot(n, to_sun_view.xyz), 0.0) * lit);
    return below * (1.0 - back) + share * mirrored(n, vec3(0.04), vec3(1.0), rough, sunlight, open);
}
#endif
#if defined(OUT_COLOUR) && defined(TRANSMISSION)
float share_through(float metal) {
    float share = through.w * (1.0 - metal);
#ifdef TRANSMISSION_MAP
    share *= sampled(transmission_map, AT_TRANSMISSION).r;
#endif
    return share;
}
vec3 passing() {
#if SHADING == 0
    return pow(through.rgb, vec3(1.0 / 2.2));
#else
    return through.rgb;
#endif
}
#endif
"""
