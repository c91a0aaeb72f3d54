"""Inertial samples from an onboard client (implements ``PoseSource``).

They come on the client's control connection, in batches, stamped in bridge time by the client,
which knows both clocks.
"""

from __future__ import annotations

import asyncio
from typing import Final

from vil_adapters.onboard_imu.config import OnboardImuConfig
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import ImuSample, SourceReset
from vil_bridge.interfaces.ports import Emit, SourceContext
from vil_bridge.runtime.supervisor import Status

_HOUSEKEEPING_S: Final = 0.25
_SILENT_NS: Final = NS_PER_S
_OLDEST_NS: Final = NS_PER_S
_CLOCK_ERROR_NS: Final = 20 * NS_PER_MS


class OnboardImuSource:
    """Samples of one reader, which may disconnect and return."""

    def __init__(self, name: str, config: OnboardImuConfig) -> None:
        self.name = name
        self._reader = config.reader

    async def run(self, emit: Emit, status: Status, context: SourceContext) -> None:
        """Receive samples until cancelled.

        Raises:
            SourceUnavailable: another source receives those of this reader.
        """
        receiver = _SampleReceiver(self.name, emit, status)
        with context.onboard_imu.receiving(self._reader, receiver.handle):
            while True:
                if now_ns() - receiver.t_received_ns > _SILENT_NS:
                    status.waiting(
                        f"no inertial samples from {self._reader!r}: is it registered so, "
                        "and does it send any?"
                    )
                await asyncio.sleep(_HOUSEKEEPING_S)


class _SampleReceiver:
    """Check of the times of samples, which then are emitted.

    Attributes:
        t_received_ns: arrival of the last samples.
    """

    def __init__(self, name: str, emit: Emit, status: Status) -> None:
        self.t_received_ns = now_ns()
        self._name = name
        self._emit = emit
        self._status = status
        self._t_newest_ns = 0

    def handle(self, samples: ImuWindow) -> None:
        """Emit the new and possible samples; a client's clock may be off by some milliseconds."""
        t_now_ns = now_ns()
        if self._t_newest_ns and t_now_ns - self.t_received_ns > _SILENT_NS:
            self._emit(SourceReset(self._name, "the reader was away"))
            self._t_newest_ns = 0
        self.t_received_ns = t_now_ns
        for t_ns, w_radps, f_mps2 in zip(
            samples.t_ns.tolist(), samples.w_radps, samples.f_mps2, strict=True
        ):
            if not t_now_ns - _OLDEST_NS < t_ns < t_now_ns + _CLOCK_ERROR_NS:
                self._status.counters["impossible_times"] += 1
            elif t_ns <= self._t_newest_ns:
                self._status.counters["out_of_order"] += 1
            else:
                self._t_newest_ns = t_ns
                self._emit(ImuSample(self._name, None, t_ns, w_radps, f_mps2))
                self._status.running()
