"""The emulated flight on disk: where the drone was and what its IMU measured, in EuRoC's layout.

    python examples/vio/flight.py out/flight --seconds 70

The drone rests with idling motors, which shake its IMU, then flies at 2 m/s. Another number is
another piece of the path, with other noise. The folder is the truth of an evaluation, and a
recording that a `motion-file` source plays.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import numpy as np

from vil_adapters.motions.drone import BRISK, DroneMotion, ImuErrors, SinePath
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.euroc import EurocImu, EurocWriter

REST_S = 5.0
IMU_HZ, MOCAP_HZ = 250, 120.0
MOTORS = ImuErrors(gyro_vibration_radps=0.05, accel_vibration_mps2=1.0)
PIECE_S = 37.0
DIFFERENCE_NS = 1_000_000


def flight(number: int = 0, rest_s: float = REST_S) -> DroneMotion:
    """Return one of the flights."""
    return DroneMotion(
        path=later(BRISK, PIECE_S * number),
        rest_s=rest_s,
        imu=replace(MOTORS, seed=1 + number),
        imu_rate_hz=IMU_HZ,
    )


def later(path: SinePath, t_s: float) -> SinePath:
    """Return the path as it goes on after a while."""

    def moved(
        axis: tuple[tuple[float, float, float], ...],
    ) -> tuple[tuple[float, float, float], ...]:
        return tuple(
            (amplitude, hz, phase_rad + 2.0 * np.pi * hz * t_s) for amplitude, hz, phase_rad in axis
        )

    x, y, z = map(moved, path.position_m)
    return SinePath((x, y, z), moved(path.yaw_rad))


class FlightWriter:
    """Writer of the flight's inertial samples and true states as time passes; a context manager."""

    def __init__(self, folder: Path, motion: DroneMotion, begin_ns: int) -> None:
        """Begin.

        ``begin_ns`` is the instant, in the clock of the files, at which the motion starts.
        """
        self._writer = EurocWriter(folder, {}, EurocImu(IMU_HZ))
        self._motion, self._begin_ns = motion, begin_ns
        self._until_ns, self._rows = -1, 0

    def __enter__(self) -> "FlightWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()

    def until(self, t_ns: int) -> None:
        """Write what happened up to an instant of the motion."""
        for t_imu_ns, w_radps, f_mps2 in self._motion.imu_between(self._until_ns, t_ns):
            self._writer.add_imu(self._begin_ns + t_imu_ns, w_radps, f_mps2)
        self._until_ns = t_ns
        while (t_row_ns := round(self._rows / MOCAP_HZ * NS_PER_S)) <= t_ns:
            self._writer.add_truth(
                self._begin_ns + t_row_ns, self._motion.truth(t_row_ns), self._velocity(t_row_ns)
            )
            self._rows += 1

    def _velocity(self, t_ns: int) -> FloatArray:
        before, after = (
            self._motion.truth(t_ns + step_ns).p_m for step_ns in (-DIFFERENCE_NS, DIFFERENCE_NS)
        )
        return (after - before) / (2e-9 * DIFFERENCE_NS)


def main() -> None:
    """Write a flight."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("out", type=Path, help="folder that gets the mav0")
    parser.add_argument("--seconds", type=float, default=70.0)
    parser.add_argument("--number", type=int, default=0, help="which of the flights")
    o = parser.parse_args()
    with FlightWriter(o.out, flight(o.number), 1000 * NS_PER_S) as writer:
        writer.until(round(o.seconds * NS_PER_S))


if __name__ == "__main__":
    main()
