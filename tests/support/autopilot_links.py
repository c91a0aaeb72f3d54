"""Samples for links to autopilots' programs, and what their tests wait for."""

from __future__ import annotations

import select

from vil_bridge.core.sensor_readings import (
    BarometerReading,
    GpsReading,
    ImuReading,
    MagnetometerReading,
)
from vil_bridge.protocols.mavlink.pose_messages import Spread
from vil_simulation.autopilots.links.link import AutopilotLink, AutopilotSample, LinkState
from vil_simulation.autopilots.links.poses import PoseSample, TrueMotion

MS = 1_000_000
LEVEL = (0.0, 0.0, 0.0, 1.0)
STILL = TrueMotion((1.0, 2.0, 3.0), (0.1, 0.2, 0.3), LEVEL, (0.0, 0.0, 0.0))
GPS = GpsReading(4 * MS, 47.5, 8.5, 430.0, 0.3, 0.4, (1.0, 2.0, 3.0), 3, True, 0)
POSE = PoseSample("ODOMETRY", 3 * MS, STILL, (47.1, 8.2, 456.5), Spread(0.002, 0.003, 0.05))
UNLIMITED_S = 60.0


def sample(t_ns: int, motion: TrueMotion = STILL, **more: object) -> AutopilotSample:
    imu = ImuReading(t_ns, motion.q_world_body, (0.1, 0.2, 0.3), (0.5, 0.6, 9.81))
    return AutopilotSample(
        t_ns,
        motion,
        imu,
        MagnetometerReading(t_ns, (1e-5, 2e-5, 3e-5)),
        BarometerReading(t_ns, 120.0, 99_900.0, 1013.25),
        **more,  # type: ignore[arg-type]
    )


def until(link: AutopilotLink, reached: object) -> None:
    """Read until a condition holds."""
    assert callable(reached)
    for _ in range(2000):
        link.receive()
        if reached():
            return
        select.select(link.descriptors(), (), (), 0.01)
    raise AssertionError("it never came")


def no_longer_waiting(link: AutopilotLink) -> bool:
    link.check()
    return not link.waiting


def has_state(link: AutopilotLink, state: LinkState) -> bool:
    return link.state == state
