"""Another simulator of quadrotors next to our kernel: crazyflow (JAX), where it is installed.

Both integrate a rigid body whose rotors have a lag, an inertia and a drag by RK4 at 500 Hz, with
the rotors' speeds commanded: crazyflow its first-principles dynamics in float32, ours
FlightGoggles' multicopter in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import numpy as np

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.installation import install_command
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter

_RATE_HZ: Final = 500
_HOVER_RPM: Final = 15_000.0


def kernel_units(n: int, steps: int) -> Callable[[int], None]:
    """Return work of units of so many steps of n vehicles in our kernel."""
    model = FlightGogglesMulticopter()
    native = model.native()
    if native is None:
        raise ConfigError(f"the compiled kernels need numba: {install_command('sim')}")
    x, u, around = model.initial(n), np.full((n, 4), model.parameters.hover_radps), model.calm(n)

    def work(count: int) -> None:
        native(x, u, around, 1.0 / _RATE_HZ, steps * count)

    return work


def crazyflow_units(n: int, steps: int) -> Callable[[int], None]:
    """Return the same work in crazyflow, n worlds with a drone each, on the CPU.

    Crazyflow compiles again for another number of steps.
    """
    jax: Any = import_module("jax")
    kinds: dict[str, Any] = {
        "dynamics": "first_principles",
        "control": "rotor_vel",
        "integrator": "rk4",
    }
    sim: Any = import_module("crazyflow.sim").Sim(
        n_worlds=n, n_drones=1, freq=_RATE_HZ, device="cpu", **kinds
    )
    sim.reset()
    sim.rotor_vel_control(np.full((n, 1, 4), _HOVER_RPM, np.float32))

    def work(count: int) -> None:
        for _ in range(count):
            sim.step(steps)
        jax.block_until_ready(sim.data.states.pos)

    return work
