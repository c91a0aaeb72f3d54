"""Bodies that others move, as the vehicles of a source meet them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.matrices import length
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.solid_world import MovingBody
from vil_simulation.vehicles.contact import Collider, CollidingBody
from vil_simulation.vehicles.layout import RIGID_BODY, StateLayout

_VALID_NS: Final = NS_PER_S // 2
"""A body is forgotten this long after it was last seen."""
_SETTLED_NS: Final = 20 * NS_PER_MS
"""Reports of a body so soon after a bounce may be from before the bounce in its own simulation."""
_MOST_LATER: Final = 64
_LAYOUT: Final = StateLayout(*RIGID_BODY)


class MovingBodies:
    """Bodies at the times of a simulation, each as it was last seen, on a straight line since.

    A vehicle of another simulation bounces here and there, from the same motions and masses. So
    nothing that is reported of it moves it back to before the bounce.
    """

    def __init__(self) -> None:
        self.now: tuple[MovingBody, ...] = ()
        self._later: deque[tuple[int, tuple[MovingBody, ...]]] = deque(maxlen=_MOST_LATER)
        self._settled_ns: dict[str, int] = {}

    @property
    def waits(self) -> bool:
        """True while bodies are known at instants that the simulation has not reached."""
        return bool(self._later)

    def set(self, bodies: Sequence[MovingBody], t_ns: int) -> bool:
        """Set all bodies at ``t_ns``, or at the later instant at which they were seen.

        Return True if now.
        """
        seen_ns = max((body.t_ns for body in bodies), default=t_ns)
        if seen_ns <= t_ns:
            self._later.clear()
            self._set(bodies)
            return True
        if self._later and self._later[-1][0] >= seen_ns:
            self._later.pop()
        self._later.append((seen_ns, tuple(bodies)))
        return False

    def reach(self, t_ns: int) -> bool:
        """Go on to an instant.

        Return True if that changes which bodies there are, or how they move.
        """
        changed = False
        while self._later and self._later[0][0] <= t_ns:
            self._set(self._later.popleft()[1])
            changed = True
        if any(t_ns - body.t_ns > _VALID_NS for body in self.now):
            self.now = tuple(body for body in self.now if t_ns - body.t_ns <= _VALID_NS)
            changed = True
        return changed

    def middles_m(self, k: int, t_ns: int) -> FloatArray:
        """Return the middles of a body's spheres at an instant, (n, 3)."""
        body = self.now[k]
        middles: FloatArray = np.array(body.middles_m) + (t_ns - body.t_ns) / NS_PER_S * np.array(
            body.v_mps
        )
        return middles

    def speed_mps(self, k: int) -> float:
        """Return the speed of a body's fastest point at most."""
        body = self.now[k]
        speed = length(np.asarray(body.v_mps))
        if body.mass is None:
            return speed
        reach_m = np.linalg.norm(np.array(body.middles_m) - body.mass.p_m, axis=1).max()
        return speed + float(reach_m) * length(np.asarray(body.mass.w_radps))

    def colliding(self, k: int, point_m: FloatArray, like: Collider, t_ns: int) -> CollidingBody:
        """Return a body that is touched at a point (3,).

        One that nothing moves has the surface of ``like``.
        """
        body = self.now[k]
        mass = body.mass
        if mass is None:
            x = _LAYOUT.pack(
                {
                    "p_world_m": body.middles_m[0],
                    "v_world_mps": body.v_mps,
                    "q_world_body": (0, 0, 0, 1),
                }
            )
            return CollidingBody(
                x, _LAYOUT, like._replace(mass_kg=np.inf, inertia_kgm2=np.full(3, np.inf)), point_m
            )
        p_m = np.array(mass.p_m) + (t_ns - body.t_ns) / NS_PER_S * np.array(body.v_mps)
        motion = {
            "p_world_m": p_m,
            "v_world_mps": body.v_mps,
            "q_world_body": mass.q_xyzw,
            "w_body_radps": mass.w_radps,
        }
        surface = Collider(
            mass.mass_kg, np.array(mass.inertia_kgm2), mass.restitution, mass.friction
        )
        return CollidingBody(_LAYOUT.pack(motion), _LAYOUT, surface, point_m)

    def struck(self, k: int, x: FloatArray, moved_m: FloatArray, t_ns: int) -> None:
        """Let a body go on after a bounce: its state (1, dx), moved by (3,)."""
        body = self.now[k]
        if body.mass is None:
            return
        state = _LAYOUT.split(x)
        px, py, pz = state["p_world_m"][0].tolist()
        vx, vy, vz = state["v_world_mps"][0].tolist()
        wx, wy, wz = state["w_body_radps"][0].tolist()
        after = msgspec.structs.replace(
            body,
            t_ns=t_ns,
            middles_m=tuple((x, y, z) for x, y, z in (self.middles_m(k, t_ns) + moved_m).tolist()),
            v_mps=(vx, vy, vz),
            mass=msgspec.structs.replace(body.mass, p_m=(px, py, pz), w_radps=(wx, wy, wz)),
        )
        self.now = (*self.now[:k], after, *self.now[k + 1 :])
        # A lasting contact does not prolong it.
        self._settled_ns.setdefault(body.name, t_ns + _SETTLED_NS)

    def _set(self, bodies: Sequence[MovingBody]) -> None:
        """Set all bodies, but leave those that bounced a moment before they were seen as they
        are.
        """
        settles = {
            body.name for body in bodies if body.t_ns < self._settled_ns.get(body.name, body.t_ns)
        }
        here = {body.name: body for body in self.now if body.name in settles}
        self._settled_ns = {name: t_ns for name, t_ns in self._settled_ns.items() if name in here}
        self.now = tuple(here.get(body.name, body) for body in bodies)
