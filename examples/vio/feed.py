"""Inertial samples for the VIO, stamped in the onboard computer's own clock.

Of an autopilot, or of a played flight.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np

from vil_adapters.mavlink_imu.config import MavlinkImuConfig
from vil_adapters.mavlink_imu.source import MavlinkImuSource
from vil_bridge.client import ClockSync, Frame, Receiver
from vil_bridge.client_warp import ImuRing
from vil_bridge.config.base import TransformConfig
from vil_bridge.core.geometry import T_FLU_OPTICAL, Transform
from vil_bridge.core.types import ClockExchange, FloatArray, ImuSample
from vil_bridge.interfaces.ports import SourceContext
from vil_bridge.protocols.euroc import IMU_VALUES, POSE_VALUES, find_mocap, read_rows, require_imu
from vil_bridge.runtime.supervisor import Status
from vil_bridge.web.client.api import BridgeApi

__all__ = ["ImuFeed", "RecordedImu", "Rig", "Sample"]

_FEWEST_EXCHANGES: Final = 5
_KEPT: Final = 20_000
_REGISTER_S: Final = 60.0

Sample = tuple[int, FloatArray, FloatArray]


class ImuFeed:
    """Reads an autopilot's MAVLink port in a thread of its own; use it as a context manager.

    The autopilot's clock is mapped to this computer's monotonic clock by the line that the client
    fits through its exchanges with the bridge, here through the autopilot's answers to TIMESYNC;
    earlier samples are left out.

    Attributes:
        ring: the newest samples, for the receiver's late warp.
        shift_ns: from the clock of the emulated flight's files to that of the samples: they have
            the same.
    """

    shift_ns = 0

    def __init__(self, device: str, rate_hz: float = 250.0) -> None:
        """``device``: path of the serial port."""
        self._source = MavlinkImuSource("onboard", MavlinkImuConfig(device=device, rate_hz=rate_hz))
        self._clock = ClockSync()
        self.ring = ImuRing()
        self._samples: deque[Sample] = deque(maxlen=_KEPT)
        self._changed = threading.Condition()
        self._newest_ns = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="imu", daemon=True)

    def __enter__(self) -> ImuFeed:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(2.0)

    def until(self, t_ns: int, timeout_s: float = 0.3) -> list[Sample]:
        """Return samples not handed out yet.

        (t_ns, w_radps, f_mps2), up to the first one at or after ``t_ns``.

        Waits for that one, no longer than ``timeout_s``.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._newest_ns >= t_ns, timeout_s)
            taken: list[Sample] = []
            while self._samples and (not taken or taken[-1][0] < t_ns):
                taken.append(self._samples.popleft())
            return taken

    @staticmethod
    def now_ns(_frame: Frame) -> int:
        """Return the time at which a picture is handed to the vehicle: now."""
        return time.monotonic_ns()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(
            self._source.run(self._on_event, Status("onboard"), SourceContext())
        )
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        finally:
            self._loop.close()

    def _on_event(self, event: Any) -> None:
        if isinstance(event, ClockExchange):
            self._clock.add(
                event.t_sent_ns, event.t_foreign_ns, event.t_foreign_ns, event.t_received_ns
            )
        elif (
            isinstance(event, ImuSample)
            and event.t_foreign_ns is not None
            and len(self._clock) >= _FEWEST_EXCHANGES
        ):
            t_ns = self._clock.to_vehicle_ns(event.t_foreign_ns)
            self.ring.append(t_ns, event.w_radps, event.f_mps2)
            with self._changed:
                self._samples.append((t_ns, event.w_radps, event.f_mps2))
                self._newest_ns = max(self._newest_ns, t_ns)
                self._changed.notify_all()


class RecordedImu:
    """Samples of a flight that the bridge plays in simulated time, one by one as they are measured.

    A context manager.

    Attributes:
        shift_ns: from the clock of the flight's files to bridge time; 0 until the bridge plays.
    """

    def __init__(self, folder: Path, http: str, source: str = "flight") -> None:
        """Read the flight.

        Args:
            folder: holds the ``mav0``.
            http: the bridge's status page, which says when it began to play.
            source: name of the bridge's source that plays the flight.
        """
        self._t_ns, values = read_rows(require_imu(folder), IMU_VALUES)
        self._w_radps, self._f_mps2 = values[:, :3], values[:, 3:]
        self._first_ns = int(read_rows(find_mocap(folder), POSE_VALUES)[0][0])
        self._bridge, self._source, self._next = BridgeApi(http), source, 0
        self.shift_ns = 0

    def __enter__(self) -> RecordedImu:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: there is nothing to release."""

    # As ImuFeed's.
    def until(self, t_ns: int, timeout_s: float = 0.0) -> list[Sample]:  # noqa: ARG002
        """Return samples not handed out yet, up to the first one at or after ``t_ns``.

        None before the bridge plays.
        """
        if not self.shift_ns:
            started_ns = self._bridge.get_sources_by_name(self._source).report.facts.get(
                "started_ns"
            )
            if started_ns is None:
                return []
            self.shift_ns = int(started_ns) - self._first_ns
        end = min(int(np.searchsorted(self._t_ns, t_ns - self.shift_ns)) + 1, len(self._t_ns))
        rows, self._next = range(self._next, end), max(self._next, end)
        return [
            (int(self._t_ns[i]) + self.shift_ns, self._w_radps[i], self._f_mps2[i]) for i in rows
        ]

    @staticmethod
    def now_ns(frame: Frame) -> int:
        """Return the simulated time at which a picture is handed to the vehicle."""
        return int(frame.stamps["received"])


@dataclass(frozen=True, slots=True)
class Rig:
    """A camera next to the IMU, as the bridge describes both.

    Attributes:
        T_imu_camera: the camera's optical axes in the IMU's.
    """

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
        return cls(T_body_imu.inverse() @ T_body_camera @ T_FLU_OPTICAL)
