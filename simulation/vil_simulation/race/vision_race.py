"""Races flown by the vision pilot.

Sensors read the simulated vehicles, and the pilot gets their readings alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray, Modality, View, WorldSnapshot
from vil_bridge.courses.course import Course
from vil_bridge.courses.variants import perturbed
from vil_simulation.race.flown_tracks import FlownTrack, TrackRecorder
from vil_simulation.race.results import RaceEpisode, RaceResult
from vil_simulation.race.simulated_race import fly
from vil_simulation.race.vision.readings import PilotEquipment, PilotReadings
from vil_simulation.race.vision.vision_pilot import VisionPilot
from vil_simulation.vehicles.control.models import tracking
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.model import Model
from vil_simulation.vehicles.sensors.imu import ImuSensor
from vil_simulation.vehicles.sensors.rangefinder import RangeSensor
from vil_simulation.vehicles.trajectories import minimum_snap

if TYPE_CHECKING:
    from vil_renderer.embedded import EmbeddedRenderer

PILOT: Final = "vision"
_SCENE: Final = "alphapilot"
_SPARE_S: Final = 5.0


def race_by_vision(
    course: Course, seeds: Sequence[int], report: Callable[[RaceEpisode], None] = lambda _: None
) -> RaceResult:
    """Fly one race for each seed, one after another, by pictures, inertial samples and ranges.

    Args:
        course: nominal course, all that the pilot knows of the gates.
        seeds: of the moved courses and of the sensors' noise, one an episode.
        report: is called with each episode at its end.

    Raises:
        ValueError: no episode.
        RendererError: no OpenGL; the message names what to install.
    """
    if not seeds:
        raise ValueError("a race needs at least one episode: give a seed")
    episodes: list[RaceEpisode] = []
    tracks: list[FlownTrack] = []
    for seed in seeds:
        model = FlightGogglesMulticopter()
        drawn = perturbed(course, seed)
        recorder = TrackRecorder(1)
        with SensorRig(drawn, model, PilotEquipment(), seed) as rig:
            (record,) = fly([drawn], model, RemoteVisionPilot(course, model, rig), recorder.record)
        episodes.append(record.episode(seed))
        tracks += recorder.tracks([1e-9 * episodes[-1].started_ns])
        report(episodes[-1])
    return RaceResult(course.name, PILOT, tuple(episodes), tuple(tracks))


class SensorRig:
    """Sensors of one vehicle in the drawn course.

    Args:
        course: with the gates where they stand.
        model: of the vehicle.
        equipment: sensors.
        seed: of their noise.

    Raises:
        RendererError: no OpenGL; the message names what to install.
    """

    def __init__(self, course: Course, model: Model, equipment: PilotEquipment, seed: int) -> None:
        self._truth: Final = model.native_truth() or model.truth
        self._calm: Final = model.calm(1)
        self._equipment: Final = equipment
        self._renderer: Final = _renderer(course)
        rays = self._renderer.rays
        assert rays is not None
        self._imu: Final = ImuSensor(1, equipment.imu, seed=seed)
        self._range: Final = RangeSensor(
            1,
            lambda p_m, way: np.asarray(rays.cast(p_m, way).distance_m, np.float64),
            equipment.rangefinder,
            seed=seed,
        )
        self._pictures = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._renderer.close()

    def read(self, t_ns: int, x: FloatArray, u: FloatArray) -> PilotReadings:
        """Return the readings of a vehicle in a state (1, dx) under a command (1, du)."""
        truth = self._truth(t_ns, x, u, self._calm)
        imu = self._imu.sample(truth)
        range_ = self._range.sample(truth)
        assert imu is not None
        pixels = None
        if t_ns >= round(1e9 * self._pictures / self._equipment.picture_hz):
            self._pictures += 1
            pose = (
                Transform(truth.p_world_m[0], truth.q_world_body[0]) @ self._equipment.T_body_camera
            )
            view = View(self._equipment.camera, Modality.RGB, pose, t_ns)
            (image,) = self._renderer.render([view], WorldSnapshot(t_ns, ()))
            pixels = np.asarray(image.pixels, np.uint8)
        distance = None if range_ is None or not range_.hit[0] else float(range_.distance_m[0])
        return PilotReadings(t_ns, imu.w_radps[0], imu.f_mps2[0], distance, pixels)


class RemoteVisionPilot:
    """Vision pilot behind its sensors.

    It turns true states into readings, which are all that the pilot gets.

    Args:
        nominal: course as the pilot knows it.
        model: of the vehicle.
        rig: its sensors.
    """

    def __init__(self, nominal: Course, model: Model, rig: SensorRig) -> None:
        self._rig: Final = rig
        rest = minimum_snap(np.array([(0.0, 0.0, 0.0), (0.0, 0.0, 1.0)]))
        self.pilot: Final = VisionPilot(nominal, PilotEquipment(), tracking(model, rest).follow)
        self.until_s: FloatArray = np.array([self.pilot.duration_s + _SPARE_S])
        self._u = model.neutral(1)

    def __call__(self, t_s: float, x: FloatArray) -> FloatArray:
        """Return the command, (1, du)."""
        self._u = self.pilot.command(self._rig.read(round(1e9 * t_s), x, self._u))[None]
        return self._u


def _renderer(course: Course) -> EmbeddedRenderer:
    """Return a renderer of the AlphaPilot hall with the gates of a course."""
    from vil_renderer.embedded import load_scene
    from vil_renderer.embedded.scenes.race import with_course
    from vil_renderer.offline_renderer import open_renderer

    return open_renderer(with_course(load_scene(_SCENE), course))
