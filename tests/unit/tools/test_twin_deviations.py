"""Deviations that an identification states, where the least squares have a solution on paper.

A vehicle that hovers.

Height of a body under constant thrust T is z = z0 + v0 t + (T/m - g) t^2 / 2: the windows' own
states are the straight lines, and the mass is in the parabola that all windows share.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest

from vil_bridge.core.types import FloatArray
from vil_bridge.world.twin.pose_series import PoseSeries
from vil_simulation.twins.identification import IdentifiedParameter, identify
from vil_simulation.twins.rollouts import CommandLog
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.multicopter import MulticopterParameters

pytest.importorskip(
    "numba", reason="without compiled models it takes minutes: pip install '.[sim]'"
)

MASS_KG = 1.25
GRAVITY_MPS2 = 9.81
PERIOD_S = 1 / 96
POSES = 9
"""In a window."""
WINDOW_S = (POSES - 0.5) * PERIOD_S
WARM_UP = 39
"""Poses before the first window: those of the first 0.4 s, whose commands the rotors remember."""
KNOWN = FlightGogglesMulticopter(
    replace(MulticopterParameters(), mass_kg=MASS_KG, drag_ns2pm2=0.0, gravity_mps2=GRAVITY_MPS2)
)
T_S = PERIOD_S * np.arange(POSES)
KG_PER_MPS2 = MASS_KG / GRAVITY_MPS2
"""Change of the mass that changes the acceleration by 1 m/s2 at constant thrust, but for its
sign.
"""


def mass_of(p_m: FloatArray, turns_rad: FloatArray) -> IdentifiedParameter:
    """Identify the mass of a vehicle that hovers, from errors of its poses in windows, (k, 9, 3)
    each.

    The rotation vectors ``turns_rad`` are short.
    """
    fitted = slice(WARM_UP, WARM_UP + len(p_m) * POSES)
    n = fitted.stop + 6
    at = np.tile((0.0, 0.0, 1.0), (n, 1))
    q = np.tile((0.0, 0.0, 0.0, 1.0), (n, 1))
    at[fitted] += p_m.reshape(-1, 3)
    q[fitted, :3] = 0.5 * turns_rad.reshape(-1, 3)
    t_s = PERIOD_S * np.arange(n, dtype=np.float64)
    hover = CommandLog(t_s, np.full((n, 4), KNOWN.parameters.hover_radps))
    found = identify(KNOWN, PoseSeries(t_s, at, q), hover, ("mass_kg",), window_s=WINDOW_S)
    assert found.windows == len(p_m)
    return found.parameters["mass_kg"]


@pytest.mark.parametrize("windows", [3, 4, 8])
def test_white_noise_gives_the_deviation_of_the_curvature_of_a_parabola(windows: int) -> None:
    """The errors are orthogonal to all polynomials up to degree 7, so that they change no value and
    stay as they are.

    A window has 54 numbers and loses 12 to its own state; all together lose one to the mass. The
    residuals of positions and of rotations are weighted so that each has the same mean square; the
    variance of the second derivative is the variance of the noise over the sum of the squares of
    t^2 / 2 without its straight line.
    """
    noise = np.array([(-1.0) ** i * math.comb(8, i) for i in range(POSES)]) / math.sqrt(
        math.comb(16, 8)
    )
    assert abs(noise @ np.vander(T_S, 8)).max() < 1e-15 and noise @ noise == pytest.approx(1.0)
    errors = np.tile(noise[None, :, None], (windows, 1, 3))
    found = mass_of(1e-5 * errors, 3e-5 * errors)
    numbers = 54 * windows
    mean_square_m2 = 1e-5**2 / POSES
    variance_m2 = mean_square_m2 * numbers / (numbers - 12 * windows - 1)
    square = 0.5 * T_S**2
    curved = square - np.polyval(np.polyfit(T_S, square, 1), T_S)
    deviation_mps2 = math.sqrt(variance_m2 / (windows * (curved @ curved)))
    assert found.value == pytest.approx(MASS_KG, rel=1e-9)
    assert found.sd == pytest.approx(KG_PER_MPS2 * deviation_mps2, rel=1e-4)


@pytest.mark.parametrize(
    "gusts_mps2", [(-2e-3, 1e-3, 7e-4), (1e-3, 3e-3, -2e-3, -5e-4, 1e-4, 4e-3, -3e-3)]
)
def test_gusts_give_the_deviation_of_a_mean_of_the_windows(gusts_mps2: tuple[float, ...]) -> None:
    """Each window has an acceleration of its own.

    The one that they share is the mean, known to s / sqrt(k).
    """
    climbs = np.zeros((len(gusts_mps2), POSES, 3))
    climbs[..., 2] = 0.5 * np.array(gusts_mps2)[:, None] * T_S**2
    found = mass_of(climbs, np.zeros_like(climbs))
    assert found.value - MASS_KG == pytest.approx(
        -KG_PER_MPS2 * statistics.fmean(gusts_mps2), rel=2e-3, abs=1e-8
    )
    deviation_mps2 = statistics.stdev(gusts_mps2) / math.sqrt(len(gusts_mps2))
    assert found.sd == pytest.approx(KG_PER_MPS2 * deviation_mps2, rel=2e-3)
