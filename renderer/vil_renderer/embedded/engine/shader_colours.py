"""Colours in the shaders: from display values to light and back, and the tone curve."""

from __future__ import annotations

from typing import Final

from vil_bridge.optics.tone_curve import LIFT, SHOULDER, TOE, WHITE

COLOURS: Final = f"""// sRGB's two curves, fitted: 0.3 and 0.02 levels of 255 off at worst, and no
// power in them.
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
// The colour in the picture of light: with baked light by a camera's tone curve
// (vil_bridge.optics.tone_curve).
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
"""
