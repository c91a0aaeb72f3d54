"""What a recording measured of each actor, in the world and in Unix time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import q_conj, q_log, q_mul
from vil_bridge.core.motion import BodyMotion
from vil_bridge.core.types import FloatArray, ImuSample, SkeletonFrame, SourceFrame
from vil_bridge.record.facts import RecordingFacts
from vil_bridge.record.placing import Placed, Placing
from vil_bridge.record.reader import Recording

__all__ = ["Felt", "Seen", "motions", "samples", "sightings"]

_LONGEST_STEP_NS = NS_PER_S // 4
"""Over a longer gap nobody knows how fast a body was."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A measured pose of an actor. ``t_utc_ns`` is its capture."""

    t_utc_ns: int
    placed: Placed

    @property
    def skeleton(self) -> SkeletonFrame | None:
        """A human's bones in the world."""
        return self.placed.skeleton


@dataclass(frozen=True, slots=True)
class Felt:
    """An inertial sample. ``t_utc_ns`` is its capture; shapes (3,), the IMU's axes."""

    t_utc_ns: int
    w_radps: FloatArray
    f_mps2: FloatArray


def sightings(recording: Recording, facts: RecordingFacts) -> Iterator[Seen]:
    """Every measured pose; the captures of an actor strictly increase, what came late is left out."""
    placing, last_ns = Placing(facts.actors), dict.fromkeys((a.name for a in facts.actors), -1)
    for event, _, t_capture_ns in recording.stamped_events():
        if not isinstance(event, SourceFrame) or t_capture_ns is None:
            continue
        t_utc_ns = t_capture_ns + recording.utc_offset_ns
        for placed in placing.placed(event):
            if t_utc_ns > last_ns[placed.actor]:
                last_ns[placed.actor] = t_utc_ns
                yield Seen(t_utc_ns, placed)


def motions(recording: Recording, facts: RecordingFacts) -> Iterator[tuple[str, BodyMotion]]:
    """The same of rigid actors with twists by central differences, Unix time; none at the ends and beside gaps."""
    windows: dict[str, list[Seen]] = {}
    for seen in sightings(recording, facts):
        if seen.skeleton is not None:
            continue
        window = windows.setdefault(seen.placed.actor, [])
        window.append(seen)
        if len(window) == 3:
            before, here, after = window
            if after.t_utc_ns - before.t_utc_ns < 2 * _LONGEST_STEP_NS:
                yield seen.placed.actor, _motion(before, here, after)
            window.pop(0)


def samples(recording: Recording, source: str) -> Iterator[Felt]:
    """Inertial samples of a source; captures strictly increase."""
    last_ns = -1
    for event, _, t_capture_ns in recording.stamped_events():
        if isinstance(event, ImuSample) and event.source == source and t_capture_ns is not None:
            t_utc_ns = t_capture_ns + recording.utc_offset_ns
            if t_utc_ns > last_ns:
                last_ns = t_utc_ns
                yield Felt(t_utc_ns, event.w_radps, event.f_mps2)


def _motion(before: Seen, here: Seen, after: Seen) -> BodyMotion:
    dt_s = (after.t_utc_ns - before.t_utc_ns) / NS_PER_S
    a, b = before.placed.T_world_body, after.placed.T_world_body
    w_body_radps = q_log(q_mul(q_conj(a.q_xyzw), b.q_xyzw)) / dt_s
    v_world_mps = np.asarray((b.p_m - a.p_m) / dt_s)
    return BodyMotion(here.t_utc_ns, here.placed.T_world_body, v_world_mps, w_body_radps, "measured")
