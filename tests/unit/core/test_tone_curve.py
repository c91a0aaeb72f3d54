"""Tone curve of pictures with baked light.

Its shape, its inverse, and the pictures that have it.
"""

from __future__ import annotations

import numpy as np

from vil_bridge.optics.tone_curve import SHOULDER, TOE, WHITE, light_of_levels, toned, untoned


def test_it_is_monotone_linear_in_the_mid_tones_and_lifts_shadows_only() -> None:
    display = np.linspace(0.0, WHITE, 2001)
    shown = toned(display)
    slope = np.diff(shown) / np.diff(display)
    assert slope.min() > 0.0
    middle = (display >= TOE) & (display <= SHOULDER)
    np.testing.assert_allclose(shown[middle], display[middle], atol=1e-12)
    shadows = (display > 0.0) & (display < TOE)
    assert (shown[shadows] > display[shadows]).all() and (
        shown[shadows] < display[shadows] + 0.06
    ).all()
    assert (shown[display > SHOULDER] < display[display > SHOULDER]).all()
    assert shown[0] == 0.0
    np.testing.assert_allclose(toned(np.array([WHITE, 5.0])), 1.0)
    assert np.abs(np.diff(slope)).max() < 0.02  # no kink


def test_its_inverse_is_exact_to_a_level() -> None:
    levels = np.arange(256) / 255.0
    back = np.rint(255.0 * toned(untoned(levels)))
    np.testing.assert_array_equal(back, np.arange(256))


def test_light_of_levels_is_that_before_the_curve() -> None:
    plain, with_curve = light_of_levels(tone_curve=False), light_of_levels(tone_curve=True)
    middle = slice(round(255 * TOE) + 1, round(255 * SHOULDER))
    np.testing.assert_allclose(with_curve[middle], plain[middle], rtol=1e-3)
    assert plain[255] == 1.0 and 4.0 < with_curve[255] < 4.3
    assert (np.diff(with_curve) > 0.0).all()
