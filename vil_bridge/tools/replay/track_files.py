"""Files of the actors' poses and tracking states in a replay."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Final, Self

from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.skeleton import place_of
from vil_bridge.core.text import csv_line
from vil_bridge.core.types import ActorKind, TrackingState
from vil_bridge.world.world import World

__all__ = ["TrackWriter"]

_TUM_HEAD: Final = "# t[s] x y z[m] qx qy qz qw: T_world_body at its capture, bridge time\n"
_STATES_HEAD: Final = "t_ns,actor,state\n"


class TrackWriter:
    """Writes ``trajectories/ACTOR.txt`` (TUM) of every actor and ``states.csv``; use it as a context manager."""

    def __init__(self, folder: Path, world: World) -> None:
        (folder / "trajectories").mkdir()
        self._world = world
        self._files = {a.name: _table(folder / "trajectories" / f"{a.name}.txt", _TUM_HEAD) for a in world.actors}
        self._states = _table(folder / "states.csv", _STATES_HEAD)
        self._seen_ns = dict.fromkeys(self._files, -1)
        self._last: dict[str, TrackingState] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        for file in (*self._files.values(), self._states):
            file.close()

    def tracked(self, source: str) -> None:
        """Write the new poses of a source's actors after the world took its frame."""
        for actor in self._world.actors:
            if actor.source == source:
                found = self._newest(actor.name, actor.kind)
                if found is not None and found[1] > self._seen_ns[actor.name]:
                    self._seen_ns[actor.name] = found[1]
                    self._files[actor.name].write(_tum(found[1], found[0]))

    def check(self) -> None:
        """Write the states that changed since the last check."""
        for name in self._files:
            state = self._world.state_of(name)
            if state is not self._last.get(name):
                self._last[name] = state
                self._states.write(csv_line((now_ns(), name, state)))

    def _newest(self, actor: str, kind: ActorKind) -> tuple[Transform, int] | None:
        if kind is not ActorKind.HUMAN:
            rigid = self._world.newest(actor)
            return None if rigid is None else rigid[:2]
        human = self._world.newest_skeleton(actor)
        return None if human is None else (place_of(human[0]), human[1])


def _table(path: Path, head: str) -> IO[str]:
    file = path.open("w", encoding="ascii", newline="\n")
    file.write(head)
    return file


def _tum(t_ns: int, pose: Transform) -> str:
    seconds, rest = divmod(t_ns, NS_PER_S)
    return f"{seconds}.{rest:09d} {' '.join(map(repr, (*pose.p_m.tolist(), *pose.q_xyzw.tolist())))}\n"
