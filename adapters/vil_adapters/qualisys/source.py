"""Qualisys source: 6D bodies and skeletons from QTM, through the vendor's `qtm-rt`.

Extra `qualisys`.
"""

from __future__ import annotations

import asyncio
from typing import Final

from qtm_rt import QRTCommandException

from vil_adapters.qualisys.codec import DataFrame
from vil_adapters.qualisys.config import QualisysConfig
from vil_adapters.qualisys.connection import QualisysConnection, connect, local_address
from vil_adapters.qualisys.convert import QualisysConverter, up_axis
from vil_adapters.qualisys.parameters import Parameters
from vil_adapters.sessions.reports import ExpectedSubjects, ResetReporter
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import ProtocolError
from vil_bridge.interfaces.ports import Emit, SourceContext
from vil_bridge.runtime.supervisor import Status

_RETRY_S: Final = 0.25
_HOUSEKEEPING_S: Final = 0.05
_SILENCE_NS: Final = 1_000_000_000
_WAITING_NS: Final = 3_000_000_000
_RATE_NS: Final = 1_000_000_000


class QualisysSource:
    """A QTM server that may start last, restart, and change what it streams.

    Implements ``PoseSource``.
    """

    def __init__(self, name: str, config: QualisysConfig) -> None:
        self.name = name
        self._config = config

    async def run(self, emit: Emit, status: Status, _context: SourceContext) -> None:
        """Connect, receive until the server disconnects, and connect again; never returns."""
        session = _Session(self.name, self._config, emit, status)
        task = asyncio.current_task()
        while True:
            trouble = await session.attempt()
            # The vendor's client waits with wait_for, which below Python 3.12 loses a cancellation
            # that comes together with the answer or the end of the connection.
            if task is not None and task.cancelling():
                raise asyncio.CancelledError
            session.report_waiting(trouble)
            await asyncio.sleep(_RETRY_S)


class _Session:
    """State that outlives a connection.

    The newest frame, its converter, the time of the last frame.
    """

    def __init__(self, name: str, config: QualisysConfig, emit: Emit, status: Status) -> None:
        self._name = name
        self._config = config
        self._emit = emit
        self._status = status
        self._resets = ResetReporter(name, emit, status)
        self._place = f"{config.server}:{config.port}"
        self._converter: QualisysConverter | None = None
        self._newest: DataFrame | None = None
        self._superseded = status.counters["superseded"]
        self._emitted_ns = now_ns()
        self._rate_start: DataFrame | None = None
        self._undescribed = False
        self._expected = ExpectedSubjects(name, config.subjects)

    def report_waiting(self, trouble: str) -> None:
        """Report what is wrong when no frame has come for a while."""
        if now_ns() - self._emitted_ns > _WAITING_NS:
            self._status.waiting(trouble)

    # --- one connection ---------------------------------------------------------------------------

    async def attempt(self) -> str:
        """Use one connection from beginning to end; return why it ended."""
        try:
            link = await connect(
                self._config.server, self._config.port, self._on_frame, self._status.counters
            )
        except ConnectionRefusedError:
            return (
                f"{self._place} refuses connections: does QTM run there, with this port (base "
                "port plus one)?"
            )
        except (OSError, TimeoutError) as exc:
            route = local_address(self._config.server, self._config.port)
            cause = "no answer" if isinstance(exc, TimeoutError) else exc.strerror or str(exc)
            return (
                f"cannot reach {self._place} {route}: {cause}; does the firewall there let "
                f"TCP {self._config.port} in?"
            )
        try:
            return await self._follow(link)
        except TimeoutError:
            return (
                f"{self._place} accepts the connection but does not answer: does QTM hang, or "
                "is another program there?"
            )
        except ConnectionError as exc:
            return f"{self._place}: {exc}"
        except (ProtocolError, QRTCommandException) as exc:
            self._status.counters["refused"] += 1
            return f"{self._place} answers otherwise than QTM would: {exc}"
        finally:
            link.close()
            self._reset()

    async def _follow(self, link: QualisysConnection) -> str:
        """Communicate with the server until it disconnects.

        Raises:
            TimeoutError, ConnectionError, ProtocolError, QRTCommandException: as the link does.
        """
        self._status.facts.update(server=await link.agree(), version=link.version)
        await self._describe(link)
        asked_ns = now_ns()
        while not link.closed.done():
            await asyncio.wait((link.closed,), timeout=_HOUSEKEEPING_S)
            t_ns = now_ns()
            if link.outdated or (self._undescribed and t_ns - asked_ns > _SILENCE_NS):
                await self._describe(link)
                asked_ns = t_ns
            elif t_ns - max(self._emitted_ns, asked_ns) > _SILENCE_NS:
                self.report_waiting(self._silence(link))
                await link.probe()
                link.stream(skeletons=self._wants_skeletons)
                asked_ns = t_ns
        link.closed.result()
        return f"{self._place} disconnected"

    async def _describe(self, link: QualisysConnection) -> None:
        """Ask for names and order, then for frames."""
        parameters = await link.describe()
        self._undescribed = False
        self._converter = QualisysConverter(
            self._name, parameters, up_axis(parameters, self._config.up_axis)
        )
        self._report_subjects(parameters)
        link.stream(skeletons=self._wants_skeletons)

    @property
    def _wants_skeletons(self) -> bool:
        return self._converter is not None and bool(self._converter.skeletons)

    def _reset(self) -> None:
        """Reset histories after a connection that gave frames."""
        self._converter = None
        if self._newest is not None:
            self._newest = self._rate_start = None
            self._resets.report("the connection to the server was lost")

    def _silence(self, link: QualisysConnection) -> str:
        if self._undescribed:
            return (
                f"QTM at {self._place} sends frames that its parameters do not describe; "
                "asked again every second"
            )
        refusal = f" (it says: {link.refusal})" if link.refusal else ""
        return (
            f"QTM at {self._place} answers but sends no frames{refusal}: start a capture, "
            "the preview, "
            "or real-time output of a file"
        )

    # --- frames -----------------------------------------------------------------------------------

    def _on_frame(self, data: DataFrame, t_arrival_ns: int) -> None:
        before = self._newest
        self._newest = data
        superseded = self._status.counters["superseded"]
        overtaken = superseded - self._superseded
        self._superseded = superseded
        if before is not None:
            if data.t_us < before.t_us:
                self._rate_start = None
                self._resets.report(f"stamps went back by {(before.t_us - data.t_us) / 1e6:.3f} s")
            elif data.number > before.number:
                # Those that were overtaken in the receiver have come.
                self._status.counters["lost"] += max(0, data.number - before.number - 1 - overtaken)
        frame = None if self._converter is None else self._converter.frame(data, t_arrival_ns)
        self._undescribed = frame is None
        if frame is None:
            self._status.counters["undescribed"] += 1
            return
        self._emit(frame)
        self._emitted_ns = t_arrival_ns
        self._measure_rate(data)
        self._status.running()

    def _measure_rate(self, data: DataFrame) -> None:
        """Measure the server's rate from its own numbers and stamps, so that losses do not lower
        it.
        """
        start = self._rate_start
        if start is None or data.number <= start.number:
            self._rate_start = data
        elif (data.t_us - start.t_us) * 1_000 >= _RATE_NS:
            self._status.facts["frame_rate_hz"] = (
                (data.number - start.number) * 1e6 / (data.t_us - start.t_us)
            )
            self._rate_start = data

    def _report_subjects(self, parameters: Parameters) -> None:
        assert self._converter is not None
        subjects = self._converter.subjects
        skeletons = self._converter.skeletons
        self._status.facts.update(
            subjects=list(subjects), skeletons=list(skeletons), up_axis=parameters.up_axis
        )
        disabled = [body.name for body in parameters.bodies if not body.enabled]
        if disabled:
            self._status.facts["disabled"] = disabled
        self._expected.compare((*subjects, *skeletons))
