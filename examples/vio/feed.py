"""Inertial samples of the autopilot, stamped in the onboard computer's own clock."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

import numpy as np

from vil_adapters.mavlink_imu.config import MavlinkImuConfig
from vil_adapters.mavlink_imu.source import MavlinkImuSource
from vil_bridge.client import ClockSync, Frame, Receiver
from vil_bridge.config.base import TransformConfig
from vil_bridge.core.geometry import Transform
from vil_bridge.core.ports import SourceContext
from vil_bridge.core.supervisor import Status
from vil_bridge.core.types import ClockExchange, FloatArray, ImuSample
from vil_bridge.pipeline.camera import T_FLU_OPTICAL

__all__ = ["ImuFeed", "Rig"]

_FEWEST_EXCHANGES: Final = 5
_KEPT: Final = 20_000
_REGISTER_S: Final = 60.0

Sample = tuple[int, FloatArray, FloatArray]


class ImuFeed:
    """Reads an autopilot's MAVLink port in a thread of its own; use it as a context manager.

    The autopilot's clock is mapped to this computer's monotonic clock by the line that the client fits through its
    exchanges with the bridge, here through the autopilot's answers to TIMESYNC; earlier samples are left out.
    """

    def __init__(self, device: str, rate_hz: float = 250.0) -> None:
        """``device``: path of the serial port."""
        self._source = MavlinkImuSource("onboard", MavlinkImuConfig(device=device, rate_hz=rate_hz))
        self._clock = ClockSync()
        self._samples: deque[Sample] = deque(maxlen=_KEPT)
        self._changed = threading.Condition()
        self._newest_ns = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="imu", daemon=True)

    def __enter__(self) -> ImuFeed:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(2.0)

    def until(self, t_ns: int, timeout_s: float = 0.3) -> list[Sample]:
        """Return samples not handed out yet: (t_ns, w_radps, f_mps2), up to the first one at or after ``t_ns``.

        Waits for that one, no longer than ``timeout_s``.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._newest_ns >= t_ns, timeout_s)
            taken: list[Sample] = []
            while self._samples and (not taken or taken[-1][0] < t_ns):
                taken.append(self._samples.popleft())
            return taken

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(self._source.run(self._on_event, Status("onboard"), SourceContext()))
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        finally:
            self._loop.close()

    def _on_event(self, event: Any) -> None:
        if isinstance(event, ClockExchange):
            self._clock.add(event.t_sent_ns, event.t_foreign_ns, event.t_foreign_ns, event.t_received_ns)
        elif isinstance(event, ImuSample) and event.t_foreign_ns is not None and len(self._clock) >= _FEWEST_EXCHANGES:
            t_ns = self._clock.to_vehicle_ns(event.t_foreign_ns)
            with self._changed:
                self._samples.append((t_ns, event.w_radps, event.f_mps2))
                self._newest_ns = max(self._newest_ns, t_ns)
                self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class Rig:
    """A camera next to the IMU, as the bridge describes both.

    Attributes:
        T_body_imu: the IMU in the vehicle's body.
        T_imu_camera: the camera's optical axes in the IMU's.
    """

    T_body_imu: Transform
    T_imu_camera: Transform

    @classmethod
    def of(cls, receiver: Receiver) -> Rig:
        """Wait for the bridge's description.

        Raises:
            TimeoutError: there is none within a minute.
        """
        deadline_s = time.monotonic() + _REGISTER_S
        while not receiver.camera_info:
            if time.monotonic() > deadline_s:
                raise TimeoutError(receiver.problem)
            time.sleep(0.05)
        info = receiver.camera_info
        T_body_imu = TransformConfig(**(info["T_body_imu"] or {})).transform()
        T_body_camera = TransformConfig(**info["T_body_camera"]).transform()
        return cls(T_body_imu, T_body_imu.inverse() @ T_body_camera @ T_FLU_OPTICAL)

    def imu_at(self, frame: Frame) -> tuple[Transform, FloatArray] | None:
        """T_world_imu and the IMU's velocity (m/s, world) at the instant that a picture shows; None = unknown."""
        pose, motion = frame.pose_display, frame.metadata.get("motion")
        if pose is None or motion is None:
            return None
        T_world_imu = Transform(pose.p_m, pose.q_xyzw) @ self.T_imu_camera.inverse()
        R_world_body = (T_world_imu @ self.T_body_imu.inverse()).rotation()
        turning = np.cross(motion["w_body_radps"], self.T_body_imu.p_m)
        return T_world_imu, motion["v_world_mps"] + R_world_body @ turning
