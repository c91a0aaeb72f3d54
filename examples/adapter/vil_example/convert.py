"""The only place that knows the system's units, axes and clock; both ways."""

from __future__ import annotations

import numpy as np

from vil_adapters.sessions.plausible_range import within_reach
from vil_bridge.core.geometry import q_normalize
from vil_bridge.core.types import MotionFrame, SourceFrame
from vil_example.codec import StreamedBody, StreamedFrame

__all__ = ["from_motion", "to_frame"]

_NS_PER_US = 1000
_NORM = (0.9, 1.1)


@np.errstate(invalid="ignore", over="ignore")  # any bits may arrive; invalid poses are marked below
def to_frame(source: str, frame: StreamedFrame, t_arrival_ns: int) -> SourceFrame:
    """Return a frame in metres, z up, quaternions with the scalar last, nanoseconds of the
    server's clock.
    """
    # TODO: convert position and attitude; see docs/concepts/conventions.md of the bridge.
    p_m = np.array([body.p for body in frame.bodies], dtype=np.float64).reshape(-1, 3)
    q_xyzw = np.array([body.q for body in frame.bodies], dtype=np.float64).reshape(-1, 4)
    # TODO: the flag of the system that says whether a body is tracked.
    tracked = np.array([body.tracked for body in frame.bodies], dtype=np.bool_)
    norm = np.linalg.norm(q_xyzw, axis=1)
    tracked &= within_reach(p_m) & (_NORM[0] < norm) & (norm < _NORM[1])
    p_m[~tracked], q_xyzw[~tracked] = 0.0, (0.0, 0.0, 0.0, 1.0)
    return SourceFrame(
        source=source,
        frame_number=frame.number,
        t_foreign_ns=frame.t_us
        * _NS_PER_US,  # TODO: the capture time; None where the stream has no stamp.
        t_arrival_ns=t_arrival_ns,
        subjects=tuple(body.name for body in frame.bodies),
        p_m=p_m,
        q_xyzw=q_normalize(q_xyzw),
        tracked=tracked,
    )


def from_motion(seen: MotionFrame, number: int, t_ns: int) -> StreamedFrame:
    """Return the frame of an emulated server; the inverse of :func:`to_frame`."""
    # TODO: the same conversions the other way round.
    rows = zip(
        seen.subjects, seen.p_m.tolist(), seen.q_xyzw.tolist(), seen.tracked.tolist(), strict=True
    )
    bodies = [StreamedBody(name, tuple(p), tuple(q), tracked) for name, p, q, tracked in rows]
    return StreamedFrame(number, t_ns // _NS_PER_US, bodies)
