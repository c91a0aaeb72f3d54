"""FlightGoggles' multicopter against the rows that its compiled original printed.

Reference, section 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pytest

from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.fleet import Engine, Fleet
from vil_simulation.vehicles.flightgoggles.model import Compat, FlightGogglesMulticopter
from vil_simulation.vehicles.model import Integrator
from vil_simulation.vehicles.multicopter import MulticopterParameters, quad_x

W0: Final = 1133.1510991975279
STEPS_PER_S: Final = 960

_Command = tuple[float, float, float, float]
_Row = tuple[float, ...]


def _step(t: float) -> _Command:
    return (1.05 * W0, 1.05 * W0, 1.05 * W0, 1.05 * W0)


def _yaw(t: float) -> _Command:
    return (W0 + 30.0, W0 - 30.0, W0 + 30.0, W0 - 30.0)


def _roll(t: float) -> _Command:
    d = 40.0 if t < 0.1 else -40.0 if t < 0.2 else 0.0
    return (W0 + d, W0 + d, W0 - d, W0 - d)


def _mixed(t: float) -> _Command:
    return (
        W0 + 60.0 * math.sin(6.0 * t) + 10.0,
        W0 - 45.0 * math.sin(5.0 * t) + 8.0,
        W0 - 60.0 * math.sin(6.0 * t) + 12.0,
        W0 + 45.0 * math.cos(4.0 * t) - 40.0 + 6.0,
    )


def _saturated(t: float) -> _Command:
    c = 3000.0 if t % 0.2 < 0.1 else -500.0
    return (c, c, c, c)


PATTERNS: Final[dict[str, Callable[[float], _Command]]] = {
    "step": _step,
    "yaw": _yaw,
    "roll": _roll,
    "mixed": _mixed,
    "sat": _saturated,
}

_LEVEL: Final = (1.0, 0.0, 0.0, 0.0)
_REST: Final = (0.0, 0.0, 0.0)

# (integrator, pattern, seconds): p, v, q (w, x, y, z), w
GOLDEN: Final[dict[tuple[str, str, int], _Row]] = {
    ("euler", "step", 1): (0, 0, 1.474759884, 0, 0, 0.954700638, *_LEVEL, *_REST),
    ("rk4", "step", 1): (0, 0, 1.475246016, 0, 0, 0.954649390, *_LEVEL, *_REST),
    ("euler", "yaw", 5): (
        *(0, 0, 1.084675504, 0, 0, 0.033983420),
        *(0.317666766, 0, 0, 0.948202418, 0, 0, -4.854847351),
    ),
    ("rk4", "yaw", 5): (
        *(0, 0, 1.084684106, 0, 0, 0.033981553),
        *(0.318170954, 0, 0, 0.948033356, 0, 0, -4.854847351),
    ),
    ("euler", "roll", 5): (
        *(0, -3.924886388, 0.809803769, 0, 0.019125443, -0.067154368),
        *(0.998907762, -0.046725608, 0, 0, -0.039744442, 0, 0),
    ),
    ("rk4", "roll", 5): (
        *(0, -3.950493282, 0.809702829, 0, 0.003894035, -0.066533522),
        *(0.998926292, -0.046327781, 0, 0, -0.039591975, 0, 0),
    ),
    ("euler", "mixed", 1): (
        *(-1.484654697, -0.488633880, 0.265703844, -4.531940718, -1.592236713, -2.933945874),
        *(
            0.520081268,
            0.671097049,
            -0.126474719,
            -0.512979893,
            1.181125024,
            2.852366536,
            -2.817607508,
        ),
    ),
    ("rk4", "mixed", 1): (
        *(-1.491207999, -0.490940070, 0.261900773, -4.535932568, -1.596017568, -2.939009067),
        *(
            0.519763368,
            0.671443397,
            -0.126131058,
            -0.512933487,
            1.181769850,
            2.848268214,
            -2.817088832,
        ),
    ),
    ("euler", "mixed", 5): (
        *(-26.468000836, -7.555351796, -33.043580272, -7.299511818, -1.054605724, -7.463771648),
        *(
            0.508506520,
            0.591534003,
            -0.496855959,
            -0.380319338,
            0.970363716,
            1.038576788,
            -1.006156723,
        ),
    ),
    ("rk4", "mixed", 5): (
        *(-26.486322202, -7.546674189, -33.041667576, -7.301101210, -1.056949691, -7.461886523),
        *(
            0.508537779,
            0.592011244,
            -0.495867234,
            -0.380825027,
            0.972266029,
            1.038403967,
            -1.008422456,
        ),
    ),
    ("euler", "sat", 5): (0, 0, 31.152330836, 0, 0, 6.637069464, *_LEVEL, *_REST),
    ("rk4", "sat", 5): (0, 0, 30.851759366, 0, 0, 6.574260156, *_LEVEL, *_REST),
}


def _fly(
    fleet: Fleet, patterns: Sequence[Callable[[float], _Command]], seconds: set[float]
) -> dict[float, FloatArray]:
    """Rows (n, 13), quaternions w first, at these times; vehicle i flies pattern i."""
    fleet.place(p_world_m=(0.0, 0.0, 1.0))
    rows: dict[float, FloatArray] = {}
    for step in range(1, round(max(seconds) * STEPS_PER_S) + 1):
        t = (step - 1) * float(fleet.dt_s)
        fleet.command([pattern(t) for pattern in patterns])
        fleet.advance()
        if step / STEPS_PER_S in seconds:
            rows[step / STEPS_PER_S] = fleet.x[:, [0, 1, 2, 3, 4, 5, 9, 6, 7, 8, 10, 11, 12]]
    return rows


@pytest.mark.parametrize(
    ("integrator", "compat", "tolerance", "engine"),
    [
        ("euler", None, 1e-9, "numpy"),
        ("euler", None, 1e-9, "native"),
        ("rk4", "flightgoggles", 1e-9, "numpy"),
        ("rk4", "flightgoggles", 1e-9, "native"),
        # The original normalises its running sum: 8.1e-7 m in "mixed". NumPy's RK4 is compared with
        # the kernel's.
        ("rk4", None, 2e-6, "native"),
    ],
)
def test_golden_trajectories(
    integrator: Integrator, compat: Compat | None, tolerance: float, engine: Engine
) -> None:
    fleet = Fleet(
        FlightGogglesMulticopter(integrator=integrator, compat=compat), len(PATTERNS), engine=engine
    )
    rows = _fly(fleet, list(PATTERNS.values()), {1.0, 5.0})
    for (which, pattern, second), golden in GOLDEN.items():
        if which == integrator:
            row = rows[float(second)][list(PATTERNS).index(pattern)]
            np.testing.assert_allclose(
                row, golden, rtol=tolerance, atol=tolerance, err_msg=f"{pattern} at {second} s"
            )
    if integrator == "euler":
        mixed = list(PATTERNS).index("mixed")
        truth = fleet.truth()
        np.testing.assert_allclose(
            truth.f_body_mps2[mixed], (1.017064163, 6.143709664, 0.865856877), atol=1e-9
        )
        np.testing.assert_allclose(
            truth.rotors_radps[mixed],
            (1083.593784, 1151.467974, 1204.708414, 1120.667790),
            atol=6e-7,
        )


def test_textbook_rk4_is_not_the_originals() -> None:
    models = FlightGogglesMulticopter(), FlightGogglesMulticopter(compat="flightgoggles")
    textbook, original = (
        _fly(Fleet(model, engine="native"), [_mixed], {5.0})[5.0][0] for model in models
    )
    difference = np.abs(textbook - original)
    assert difference[:3].max() == pytest.approx(8.1e-7, rel=0.02)
    assert difference[3:6].max() == pytest.approx(4.7e-7, rel=0.02)
    assert difference[6:10].max() == pytest.approx(9.5e-8, rel=0.02)


def _roll_doublet(t: float) -> _Command:
    return (9.81, 1.0 if t < 0.25 else -1.0 if t < 0.5 else 0.0, 0.0, 0.0)


def _yaw_rate(t: float) -> _Command:
    return (9.81, 0.0, 0.0, 1.0)


def _all_rates(t: float) -> _Command:
    return (
        9.81 * (1.0 + 0.2 * math.sin(1.5 * t)),
        1.5 * math.sin(3.0 * t),
        -math.cos(2.0 * t),
        0.7,
    )


RATE_PATTERNS: Final = [_roll_doublet, _yaw_rate, _all_rates]
RATE_GOLDEN: Final[list[tuple[int, float, _Row]]] = [
    (
        *(0, 0.5),
        (
            *(0, -0.083708096, 0.994683850, 0, -0.484042861, -0.033786562),
            *(0.998634801, 0.052235370, 0, 0, -0.731282596, 0, 0),
        ),
    ),
    (
        *(0, 3.0),
        (
            *(0, -1.453291992, 0.908100675, 0, -0.500776966, -0.032450732),
            *(0.999999857, -0.000535642, 0, 0, 0.000375860, 0, 0),
        ),
    ),
    (
        *(1, 0.5),
        (0, 0, 0.999981541, 0, 0, -0.000039596, 0.983094618, 0, 0, 0.183098259, 0, 0, 0.979198707),
    ),
    (
        *(2, 1.0),
        (
            *(-0.729483357, -0.997429121, 1.073081423, -1.644133383, -3.665731666, -0.338078765),
            *(
                0.837339889,
                0.390181713,
                -0.194867480,
                0.329616151,
                0.695412080,
                0.175857771,
                0.694480823,
            ),
        ),
    ),
    (
        *(2, 3.0),
        (
            *(-5.487998047, -10.689620866, -1.190245117, -3.107393566, -2.179369223, -1.967957791),
            *(
                0.587389035,
                0.057802140,
                0.130340677,
                0.796645681,
                0.994528258,
                -0.758604262,
                0.689219382,
            ),
        ),
    ),
]


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_golden_rate_controller(engine: Engine) -> None:
    model = FlightGogglesMulticopter(mode="rates", integrator="euler", compat="flightgoggles")
    rows = _fly(Fleet(model, 3, engine=engine), RATE_PATTERNS, {0.5, 1.0, 3.0})
    for which, second, golden in RATE_GOLDEN:
        np.testing.assert_allclose(rows[second][which], golden, rtol=1e-9, atol=1e-9)


def test_gyroscopic_moment_is_what_compat_leaves_out() -> None:
    fleet = Fleet(FlightGogglesMulticopter(mode="rates", integrator="euler"), 3, engine="native")
    rows = _fly(fleet, RATE_PATTERNS, {0.5, 3.0})
    for which, second, golden in RATE_GOLDEN:
        if which < 2:  # about one axis w x Jw = 0
            np.testing.assert_allclose(rows[second][which], golden, rtol=1e-9, atol=1e-9)
        elif second == 3.0:
            assert 0.1 < np.linalg.norm(rows[second][which][:3] - golden[:3]) < 0.5


@pytest.mark.parametrize("integrator", ["euler", "rk4"])
def test_python_flavour_flies_the_mirror_image(integrator: Integrator) -> None:
    """Its rotors are counted the other way round.

    Its world is north-east-down, ours x, -y, -z of that.
    """
    ros, python = (
        _fly(
            Fleet(
                FlightGogglesMulticopter(
                    MulticopterParameters(rotors=quad_x(numbering=which)), integrator=integrator
                )
            ),
            [_mixed],
            {5.0},
        )[5.0][0]
        for which in ("ros", "python")
    )
    down = np.array([1.0, -1.0, -1.0])
    p_ned, v_ned, w_frd = python[0:3] * down, python[3:6] * down, python[10:13] * down
    q_ned_frd = python[6:10] * np.array([1.0, *down])
    np.testing.assert_allclose(p_ned, ros[[1, 0, 2]] * [1, -1, -1], atol=1e-12, rtol=1e-12)
    np.testing.assert_allclose(v_ned, ros[[4, 3, 5]] * [1, -1, -1], atol=1e-12, rtol=1e-12)
    np.testing.assert_allclose(w_frd, ros[[11, 10, 12]] * [-1, 1, 1], atol=1e-12, rtol=1e-12)
    np.testing.assert_allclose(q_ned_frd, ros[[6, 8, 7, 9]] * [1, -1, 1, 1], atol=1e-12, rtol=1e-12)
