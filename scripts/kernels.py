"""Compile the kernels of the simulated vehicles, so that the tests' processes find them ready."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from vil_renderer.embedded.geometry.sweep import first_impact
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.simulation import Simulation
from vil_simulation.vehicles.airsim.model import AirsimMultirotor
from vil_simulation.vehicles.control.models import tracking
from vil_simulation.vehicles.envs.hover import HoverTask
from vil_simulation.vehicles.envs.race import RaceTask
from vil_simulation.vehicles.envs.stabilise import ThreeRotorsTask
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor
from vil_simulation.vehicles.trajectories.waypoints import minimum_snap

MODELS = (FlightmareQuadrotor, FlightGogglesMulticopter, AirsimMultirotor)
TASKS = (HoverTask, RaceTask, ThreeRotorsTask)
VEHICLES = (
    {"flightmare": {"model": "flightmare"}},
    {"flightgoggles": {"model": "flightgoggles"}, "car": {"model": "car"}},
    {"airsim": {"model": "airsim"}},
)
SENSORS = {kind: {"type": kind} for kind in ("imu", "barometer", "magnetometer", "gps")}


def step(number: int) -> None:
    """Make the first steps of one model, of its sensors, tasks, contacts and pilots, which
    compiles their kernels.
    """
    model = MODELS[number]()
    native = model.native()
    if native is not None:
        native(model.initial(1), model.neutral(1), model.calm(1), 0.001, 1)
    truth = model.native_truth()
    if truth is not None:
        truth(0, model.initial(1), model.neutral(1), model.calm(1))
    if number == 1:
        path = minimum_snap(np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [2.0, 1.0, 1.0]]))
        tracking(model, path)(0.0, model.initial(1))
    if number == 0:
        first_impact(np.zeros(3), np.ones(3), 0.1, np.ones((1, 3, 3)))
    fitted = {name: {**vehicle, "sensors": SENSORS} for name, vehicle in VEHICLES[number].items()}
    simulation = Simulation(
        SimulatedConfig.model_validate({"type": "simulated", "vehicles": fitted})
    )
    list(simulation.advance(100))
    for task in (made(1, engine="native") for made in TASKS if number == 0):
        task.reset()
        task.step(np.zeros((1, task.action_size)))


if __name__ == "__main__":
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(step, range(len(MODELS))))
