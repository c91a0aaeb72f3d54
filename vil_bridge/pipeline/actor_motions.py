"""Motion of a world's actors between two instants, in the parts that a warp moves."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np

from vil_bridge.core.types import (
    ActorState,
    FloatArray,
    SkeletonFrame,
    TrackingState,
    WorldSnapshot,
)
from vil_bridge.pipeline.warp.moving_actors import MovingActor

_LEAST_M: Final = 1e-3
_LEAST_TURN: Final = 1.0 - 1e-7
"""Cosine of half the angle: 0.05 degrees."""
_NO_SEGMENTS: Final = np.zeros((0, 2, 3))
_NO_PARTS: Final = np.zeros(0, np.intp)


def moving_actors(
    rendered: WorldSnapshot, shown: Sequence[WorldSnapshot], hidden: Collection[str]
) -> tuple[MovingActor, ...]:
    """Return the actors that a frame shows and that are elsewhere by now.

    Args:
        rendered: what was rendered.
        shown: the actors at the instants of the exposure.
        hidden: names of actors that the camera does not see.
    """
    return tuple(_moving(rendered, shown, hidden))


def _moving(
    rendered: WorldSnapshot, shown: Sequence[WorldSnapshot], hidden: Collection[str]
) -> Iterator[MovingActor]:
    states = [_by_name(snapshot) for snapshot in shown]
    for before in rendered.actors:
        after = [known[before.name] for known in states if before.name in known]
        seen = all(actor.state is not TrackingState.LOST for actor in (before, *after))
        if not seen or before.name in hidden or len(after) < len(shown):
            continue
        made = _human(before, after) if before.skeleton is not None else _rigid(before, after)
        if made is not None and _moves(made):
            yield made


def _by_name(snapshot: WorldSnapshot) -> dict[str, ActorState]:
    return {actor.name: actor for actor in snapshot.actors}


def _rigid(before: ActorState, after: Sequence[ActorState]) -> MovingActor:
    poses = [actor.T_world_body for actor in after]
    return MovingActor(
        before.name,
        0.5 * np.array(before.size_m),
        _NO_SEGMENTS,
        _NO_PARTS,
        before.T_world_body.p_m[None],
        before.T_world_body.q_xyzw[None],
        np.array([pose.p_m for pose in poses])[:, None],
        np.array([pose.q_xyzw for pose in poses])[:, None],
    )


def _human(before: ActorState, after: Sequence[ActorState]) -> MovingActor | None:
    skeleton = before.skeleton
    later = [actor.skeleton for actor in after if actor.skeleton is not None]
    if (
        skeleton is None
        or len(later) < len(after)
        or any(one.model is not skeleton.model for one in later)
    ):
        return None
    segments_m, part_of = _segments(skeleton)
    return MovingActor(
        before.name,
        None,
        segments_m,
        np.array(part_of),
        skeleton.p_m,
        skeleton.q_xyzw,
        np.array([one.p_m for one in later]),
        np.array([one.q_xyzw for one in later]),
    )


def _segments(skeleton: SkeletonFrame) -> tuple[FloatArray, list[int]]:
    """Return what each bone spans.

    From its origin to those of its children, or its origin alone.
    """
    p_m = skeleton.p_m
    parents = skeleton.model.parents
    spans = [(parent, bone) for bone, parent in enumerate(parents) if parent >= 0]
    spans += [(bone, bone) for bone in range(len(parents)) if bone not in parents]
    return np.array([(p_m[begin], p_m[end]) for begin, end in spans]), [begin for begin, _ in spans]


def _moves(actor: MovingActor) -> bool:
    along = np.abs((actor.q_shown_xyzw * actor.q_xyzw).sum(axis=-1))
    return bool(np.abs(actor.p_shown_m - actor.p_m).max() > _LEAST_M or along.min() < _LEAST_TURN)
