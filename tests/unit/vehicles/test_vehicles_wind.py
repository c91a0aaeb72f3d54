"""Wind: steady, swinging, and gusts with Dryden's spectra."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import signal

from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.disturbances import ENVIRONMENT, calm
from vil_simulation.vehicles.environment.wind import (
    ConstantWind,
    DrydenGusts,
    SinusoidalWind,
    dryden_intensities_mps,
    dryden_lengths_m,
)

FOOT = 0.3048


def bodies(n: int, z: float = 20.0) -> FloatArray:
    x = np.zeros((n, 13))
    x[:, 2] = z
    x[:, 9] = 1.0
    return x


def air(n: int, wind: Sequence[float] = (0.0, 0.0, 0.0)) -> FloatArray:
    around = calm(n, 9.81)
    around[:, ENVIRONMENT["wind_world_mps"]] = wind
    return around


def gusts(
    model: DrydenGusts,
    x: FloatArray,
    steps: int,
    dt_s: float,
    wind: Sequence[float] = (0.0, 0.0, 0.0),
    first: int = 0,
) -> FloatArray:
    """Gusts alone, shape (steps, n, 3)."""
    taken = []
    for step in range(first, first + steps):
        around = air(len(x), wind)
        model.apply(step, dt_s, x, around)
        taken.append(around[:, :3] - wind)
        assert np.array_equal(around[:, 3:], calm(len(x), 9.81)[:, 3:])
    return np.array(taken)


def test_constant_wind_adds() -> None:
    around = air(3, (1.0, 0.0, 0.0))
    ConstantWind((2.0, -1.0, 0.5)).apply(0, 1e-3, bodies(3), around)
    assert around[:, :3] == pytest.approx(np.tile([3.0, -1.0, 0.5], (3, 1)))
    ConstantWind(np.eye(3)).apply(7, 1e-3, bodies(3), around)
    assert around[:, :3] == pytest.approx(np.eye(3) + np.array([3.0, -1.0, 0.5]))


@pytest.mark.parametrize("wrong", [1.0, (1.0, 2.0), (1.0, 2.0, float("nan"))])
def test_wind_has_three_finite_components(wrong: object) -> None:
    with pytest.raises(ValueError, match="wind_world_mps"):
        ConstantWind(wrong)  # type: ignore[arg-type]


def test_sinusoidal_wind_swings() -> None:
    wind = SinusoidalWind((1.0, 2.0, 0.0), (0.5, 0.25, 1.0), (0.0, np.pi / 2.0, 0.0))
    for step, expected in (
        (0, (0.0, 2.0, 0.0)),
        (500, (1.0, np.sqrt(2.0), 0.0)),
        (1000, (0.0, 0.0, 0.0)),
    ):
        around = air(2)
        wind.apply(step, 1e-3, bodies(2), around)
        assert around[1, :3] == pytest.approx(expected, abs=1e-12)


def test_lengths_and_intensities_of_the_specification() -> None:
    # At 1000 feet the turbulence is the same in all directions: L = 1000 feet, sigma = a tenth of
    # the wind.
    assert dryden_lengths_m(1000.0 * FOOT) == pytest.approx([1000.0 * FOOT] * 3)
    assert dryden_intensities_mps(1000.0 * FOOT, 15.4) == pytest.approx([1.54] * 3)
    h = 100.0
    assert dryden_lengths_m(h * FOOT) == pytest.approx(
        np.array([h / 0.2593**1.2, h / 0.2593**1.2, h]) * FOOT
    )
    assert dryden_intensities_mps(h * FOOT, 10.0) == pytest.approx(
        [0.2593**-0.4, 0.2593**-0.4, 1.0]
    )
    # Held outside of 10 to 1000 feet.
    assert dryden_lengths_m(-5.0) == pytest.approx(dryden_lengths_m(10.0 * FOOT))
    assert dryden_intensities_mps(5e3, 10.0) == pytest.approx([1.0] * 3)
    assert dryden_lengths_m(np.ones((2, 5))).shape == (3, 2, 5)


@pytest.mark.parametrize("decay", [1e-3, 0.3, 1.0, 3.0])
def test_variance_and_correlation_for_any_step(decay: float) -> None:
    """R_u = sigma^2 exp(-a), R_v = R_w = sigma^2 exp(-a) (1 - a / 2), a = V t / L.

    At 1000 feet L is one for all.
    """
    n = 50_000
    x = bodies(n, 1000.0 * FOOT)
    dt_s = decay * 1000.0 * FOOT / 8.0
    first, second, third = gusts(DrydenGusts(20.0, seed=3), x, 3, dt_s, (8.0, 0.0, 0.0)) / 2.0
    for sample in (first, second, third):
        assert sample.mean(axis=0) == pytest.approx(np.zeros(3), abs=0.02)
        assert sample.var(axis=0) == pytest.approx(np.ones(3), abs=0.03)
    for lag, (early, late) in (
        (1.0, (first, second)),
        (1.0, (second, third)),
        (2.0, (first, third)),
    ):
        a = lag * decay
        across = np.exp(-a) * (1.0 - 0.5 * a)
        assert (early * late).mean(axis=0) == pytest.approx([np.exp(-a), across, across], abs=0.025)
    cross = np.corrcoef(second.T)
    assert cross == pytest.approx(np.eye(3), abs=0.02)


def analytic_psd(
    f_hz: FloatArray, dt_s: float, t_s: float, sigma: float, *, along: bool
) -> FloatArray:
    """One-sided spectrum of the sampled process.

    MIL-F-8785C's, with what the sampling folds back.
    """
    folded = np.abs(f_hz[:, None] + np.arange(-200, 201) / dt_s)
    w2 = (2.0 * np.pi * folded * t_s) ** 2
    shape = 2.0 / (1.0 + w2) if along else (1.0 + 3.0 * w2) / (1.0 + w2) ** 2
    return np.asarray(2.0 * sigma**2 * t_s * shape.sum(axis=1))


def test_spectra_of_the_specification() -> None:
    n, dt_s, speed, height = 256, 0.1, 10.0, 20.0
    samples = gusts(DrydenGusts(15.4, seed=11), bodies(n, height), 2048, dt_s, (speed, 0.0, 0.0))
    f, psd = signal.welch(samples, fs=1.0 / dt_s, nperseg=1024, axis=0)
    psd = psd.mean(axis=1)
    times = dryden_lengths_m(height) / speed
    sigmas = dryden_intensities_mps(height, 15.4)
    for axis in range(3):
        expected = analytic_psd(f, dt_s, times[axis], sigmas[axis], along=axis == 0)
        for low, high in ((0.1, 0.2), (0.2, 0.5), (0.5, 1.0), (1.0, 2.0), (2.0, 4.9)):
            band = (f >= low) & (f < high)
            assert psd[band, axis].sum() == pytest.approx(expected[band].sum(), rel=0.06), (
                axis,
                low,
            )
        assert samples[..., axis].std() == pytest.approx(sigmas[axis], rel=0.05)


def test_gusts_turn_with_the_wind() -> None:
    x = bodies(5)
    east = gusts(DrydenGusts(10.0, seed=1), x, 20, 0.05, (6.0, 0.0, 0.0))
    north = gusts(DrydenGusts(10.0, seed=1), x, 20, 0.05, (0.0, 6.0, 0.0))
    assert north[..., 0] == pytest.approx(-east[..., 1], abs=1e-12)
    assert north[..., 1] == pytest.approx(east[..., 0], abs=1e-12)
    assert north[..., 2] == pytest.approx(east[..., 2], abs=1e-12)


def test_gusts_drift_past_at_the_speed_through_the_air() -> None:
    hovering = bodies(3)
    flying = bodies(3)
    flying[:, 3] = -6.0
    in_wind = gusts(DrydenGusts(10.0, seed=1), hovering, 20, 0.05, (6.0, 0.0, 0.0))
    assert gusts(DrydenGusts(10.0, seed=1), flying, 20, 0.05) == pytest.approx(in_wind, abs=1e-12)
    still = gusts(DrydenGusts(10.0, seed=1), hovering, 20, 0.05)
    # The field does not drift.
    assert still == pytest.approx(np.broadcast_to(still[0], still.shape), abs=1e-12)
    assert np.abs(still).min() > 0.0


def test_gusts_belong_to_the_vehicle_and_not_to_its_row() -> None:
    wind = (5.0, 0.0, 0.0)
    all_of_them = gusts(DrydenGusts(10.0, seed=2), bodies(40), 30, 0.02, wind)
    some = gusts(DrydenGusts(10.0, seed=2, vehicles=(7, 39, 0)), bodies(3), 30, 0.02, wind)
    assert np.array_equal(some, all_of_them[:, [7, 39, 0]])
    other = gusts(DrydenGusts(10.0, seed=3), bodies(40), 30, 0.02, wind)
    assert np.abs(other - all_of_them).min() > 0.0


def test_gusts_begin_anew_with_the_steps() -> None:
    model = DrydenGusts(10.0, seed=2)
    x, wind = bodies(4), (5.0, 0.0, 0.0)
    once = gusts(model, x, 30, 0.02, wind)
    assert np.array_equal(gusts(model, x, 30, 0.02, wind), once)
    assert np.array_equal(gusts(DrydenGusts(10.0, seed=2), x, 10, 0.02, wind), once[:10])
    assert np.array_equal(gusts(model, bodies(2), 30, 0.02, wind), once[:, :2])


def test_a_lost_vehicle_does_not_spoil_its_gusts() -> None:
    model = DrydenGusts(10.0, seed=2)
    x, wind = bodies(3), (5.0, 0.0, 0.0)
    gusts(model, x, 5, 0.02, wind)
    for step, lost in ((5, np.nan), (6, np.inf)):
        x[1, :6] = lost
        gusts(model, x, 1, 0.02, wind, first=step)
    after = gusts(model, bodies(3), 5, 0.02, wind, first=7)
    assert np.isfinite(after).all()
    assert np.array_equal(
        after[:, [0, 2]], gusts(DrydenGusts(10.0, seed=2), bodies(3), 12, 0.02, wind)[7:, [0, 2]]
    )


def test_gusts_above_raised_ground() -> None:
    wind = (5.0, 0.0, 0.0)
    raised = gusts(DrydenGusts(10.0, seed=2, ground_z_m=100.0), bodies(2, 130.0), 10, 0.02, wind)
    assert raised == pytest.approx(
        gusts(DrydenGusts(10.0, seed=2), bodies(2, 30.0), 10, 0.02, wind), abs=1e-12
    )


@pytest.mark.parametrize("speed", [-1.0, float("nan"), float("inf")])
def test_gusts_refuse_impossible_winds(speed: float) -> None:
    with pytest.raises(ValueError, match="speed_6m_mps"):
        DrydenGusts(speed, seed=0)
