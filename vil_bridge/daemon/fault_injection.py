"""Fault injection: the events of a source pass through the faults that its configuration asks for.

The events are decoded already, so a fault here is what a bad network, clock or tracking would have
made of them: ``garbage`` is nonsense that decodes (not a number, no rotation, far away), which the
world must survive. The source's counters ``injected_lost`` and so on count it, over all changes of
the faults.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from dataclasses import replace
from typing import Final

import numpy as np

from vil_bridge.core.clock import now_ns
from vil_bridge.core.sensor_readings import SensorReadings
from vil_bridge.core.types import (
    ClockExchange,
    FloatArray,
    ImuSample,
    SourceEvent,
    SourceFrame,
    SourceReset,
)
from vil_bridge.interfaces.faults import Delivery, Faults, SubjectFaults
from vil_bridge.interfaces.ports import Emit
from vil_bridge.runtime.delay_line import DelayLine
from vil_bridge.runtime.supervisor import Status

logger = logging.getLogger(__name__)

_PREFIX: Final = "injected_"
_LOST_DATA: Final = "data_lost"
INJECTED_LOSSES: Final = _PREFIX + _LOST_DATA
"""Counter of a source: frames and samples that injected faults lost, as a network would have."""
_NONSENSE: Final = (np.nan, np.inf, 1e9)


class FaultInjector:
    """Faults in front of a stage, which can be changed while events pass; loop thread.

    Attributes:
        text: the faults of now, as :meth:`~vil_bridge.interfaces.faults.Faults.parse` reads them;
            empty = none.
        emit: takes an event through the faults of now; the stage itself while there are none.

    Raises:
        ConfigError: the text says nothing.
    """

    def __init__(self, text: str, emit: Emit, status: Status) -> None:
        self.text = ""
        self.emit = self._through = emit
        self._status = status
        self._faults: EventFaultStage | None = None
        self.change(text)

    def change(self, text: str) -> None:
        """Inject other faults from the next event on; events that the older ones delay are dropped.

        Raises:
            ConfigError: the text says nothing; the old faults stay.
        """
        faults: EventFaultStage | None = None
        if text:
            faults = EventFaultStage(text, self._through, self._status)
        self.close()
        self.text = text
        self._faults = faults
        if faults is None:
            self.emit = self._through
        else:
            self.emit = faults.emit
        if text:
            logger.warning("source %s: faults are injected: %s", self._status.name, text)

    def close(self) -> None:
        """Inject none any more; may be called twice."""
        if self._faults is not None:
            self._faults.close()
            self._status.facts.pop("injected", None)
            logger.warning("source %s: no faults are injected any more", self._status.name)
        self.text = ""
        self._faults = None
        self.emit = self._through


class EventFaultStage:
    """An ``emit`` with faults in front of another one. Needs the running loop; close it at the end.

    Args:
        text: faults as :meth:`~vil_bridge.interfaces.faults.Faults.parse` reads them.
        status: of the source; what is counted is added to its counters, and the text becomes its
            fact ``injected``.

    Raises:
        ConfigError: the text says nothing.
    """

    def __init__(self, text: str, emit: Emit, status: Status) -> None:
        self._text = text
        self._faults = Faults.parse(text)
        self._emit = emit
        self._status = status
        self._counters: Counter[str] = Counter()
        self._reported: Counter[str] = Counter()
        self._delivery = Delivery(self._faults, self._counters)
        self._subjects = SubjectFaults(self._faults, self._counters)
        self._random = random.Random(self._faults.seed)  # noqa: S311 - noise, not secrets
        self._delays: DelayLine[SourceEvent] = DelayLine(self._deliver_late)
        self._started_ns = now_ns()
        self._failure: Exception | None = None

    def emit(self, event: SourceEvent) -> None:
        """Pass on an event, or its copies, now or later, or not at all.

        Raises:
            Exception: what the receiver of a delayed event raised.
        """
        if self._failure is not None:
            raise self._failure
        # The source itself starts over: what is on its way is of its past.
        if isinstance(event, SourceReset):
            self._counters["undelivered"] += self._delays.clear()
            self._emit(event)
        else:
            self._harm(event, now_ns() - self._started_ns)
        self._report()

    def close(self) -> None:
        """Drop what is on its way; may be called twice."""
        self._counters["undelivered"] += self._delays.clear()
        self._delays.close()
        self._report()

    def _harm(
        self, event: SourceFrame | ClockExchange | ImuSample | SensorReadings, elapsed_ns: int
    ) -> None:
        lost = self._counters["lost"]
        delays_ns = self._delivery.delays_ns(elapsed_ns)
        if isinstance(event, (SourceFrame, ImuSample)):
            self._counters[_LOST_DATA] += self._counters["lost"] - lost
        if isinstance(event, SourceFrame):
            event = self._degrade_tracking(event, elapsed_ns)
        if not isinstance(event, SensorReadings) and event.t_foreign_ns is not None:
            event = replace(
                event, t_foreign_ns=event.t_foreign_ns + self._faults.clock_error_ns(elapsed_ns)
            )
        # Before the event: a receiver that takes the nonsense would drop the truth of the same
        # instant.
        if (
            not isinstance(event, ClockExchange)
            and self._delivery.garbage(elapsed_ns, b"") is not None
        ):
            self._deliver(self._nonsense(event), 0)
        for delay_ns in delays_ns:
            self._deliver(event, delay_ns)

    def _deliver(self, event: SourceEvent, delay_ns: int) -> None:
        if delay_ns == 0:
            self._counters["delivered"] += 1
            self._emit(event)
        elif not self._delays.enqueue(now_ns() + delay_ns, event):
            self._counters["overflow"] += 1

    def _deliver_late(self, event: SourceEvent) -> None:
        """Deliver a delayed event now; a bug of its receiver is raised by the next :meth:`emit`."""
        if isinstance(event, ClockExchange):
            event = replace(event, t_received_ns=now_ns())
        elif not isinstance(event, SourceReset):
            event = replace(event, t_arrival_ns=now_ns())
        self._counters["delivered"] += 1
        try:
            self._emit(event)
        except Exception as exc:
            self._failure = exc

    def _degrade_tracking(self, frame: SourceFrame, elapsed_ns: int) -> SourceFrame:
        p_m, q_xyzw, tracked = self._subjects.bodies(
            elapsed_ns, frame.subjects, frame.p_m, frame.q_xyzw, frame.tracked
        )
        skeletons = tuple(self._subjects.skeleton(elapsed_ns, s) for s in frame.skeletons)
        markers = self._subjects.markers(elapsed_ns, frame.markers)
        return replace(
            frame, p_m=p_m, q_xyzw=q_xyzw, tracked=tracked, skeletons=skeletons, markers=markers
        )

    def _nonsense(self, event: SourceFrame | ImuSample | SensorReadings) -> SourceEvent:
        if isinstance(event, SensorReadings):
            return replace(event, values=self._broken(event.values))
        if isinstance(event, ImuSample):
            return replace(
                event, w_radps=self._broken(event.w_radps), f_mps2=self._broken(event.f_mps2)
            )
        skeletons = tuple(
            replace(s, p_m=self._broken(s.p_m), q_xyzw=self._broken(s.q_xyzw))
            for s in event.skeletons
        )
        return replace(
            event,
            p_m=self._broken(event.p_m),
            q_xyzw=self._broken(event.q_xyzw),
            skeletons=skeletons,
        )

    def _broken(self, values: FloatArray) -> FloatArray:
        """Return the values with nonsense in one column."""
        broken = values.copy()
        broken[..., self._random.randrange(values.shape[-1])] = self._random.choice(_NONSENSE)
        return broken

    def _report(self) -> None:
        self._status.facts["injected"] = self._text
        for name, count in self._counters.items():
            if fresh := count - self._reported[name]:
                self._status.counters[_PREFIX + name] += fresh
                self._reported[name] = count
