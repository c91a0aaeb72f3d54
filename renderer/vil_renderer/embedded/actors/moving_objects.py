"""Moving objects of a scene.

They rest, follow a path or play a clip, at any time, without an actor.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform, q_from_matrix
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.actors.capsules import NodeCapsules
from vil_renderer.embedded.assets.animation import morph_weights, sample
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.posed_models import NO_CAPSULES
from vil_renderer.embedded.scene import AT_REST, Clip, Posed, Scene, SceneObject, collider_parts
from vil_renderer.embedded.scene_motion import seconds_into

_NOWHERE: Final = np.zeros(3)


class MovingObjects:
    """Movable objects of a scene, except those that a snapshot's actors drive.

    Args:
        scene: the scene.

    Raises:
        RendererError: a clip's animation is not in the model.
    """

    def __init__(self, scene: Scene) -> None:
        self._things = tuple(_MovingObject(thing) for thing in scene.objects if thing.movable)

    def pose(self, t_ns: int, driven: Collection[str] = ()) -> list[Posed]:
        """Return all movable objects at a time, except those that actors of these names drive."""
        return [thing.pose(t_ns) for thing in self._things if thing.name not in driven]


class _MovingObject:
    """One movable object."""

    def __init__(self, thing: SceneObject) -> None:
        self._thing = thing
        self.name = thing.name
        self._rest = thing.asset.asset_from_node()
        self._capsules = _joint_capsules(thing, self._rest)
        if thing.clip is not None and thing.clip.animation not in thing.asset.animations:
            known = ", ".join(sorted(thing.asset.animations)) or "none"
            raise RendererError(
                f"{thing.name}: the model has no animation {thing.clip.animation!r}; known: {known}"
            )
        self._low = _NOWHERE
        self._high = _NOWHERE
        self._still: Posed | None = None
        if thing.path is not None or thing.clip is not None:
            self._low, self._high = _bounds(thing)
        else:
            self._still = self._posed(0)

    def pose(self, t_ns: int) -> Posed:
        """Return the object at a time; a resting object is posed once."""
        return self._still or self._posed(t_ns)

    def _posed(self, t_ns: int) -> Posed:
        thing = self._thing
        m = thing.world_from_asset
        if thing.path is not None:
            motion = thing.path.motion(t_ns)
            m = motion.rotation() @ m[:3]
            m[:, 3] += motion.p_m
            m = np.vstack((m, (0.0, 0.0, 0.0, 1.0)))
        nodes = self._rest
        morph = AT_REST
        if thing.clip is not None:
            nodes, morph = _playing(thing.asset, thing.clip, t_ns)
        world_from_node: FloatArray = m @ nodes
        scale: FloatArray = np.linalg.norm(m[:3, :3], axis=0)
        middle = m[:3, :3] @ (0.5 * (self._low + self._high)) + m[:3, 3]
        x, y, z = (0.5 * scale * (self._high - self._low)).tolist()
        capsules = NO_CAPSULES
        if self._capsules is not None:
            capsules = self._carried(self._capsules, world_from_node)
        return Posed(
            thing.name,
            thing.asset,
            world_from_node,
            thing.semantic,
            thing.instance,
            Transform(middle, q_from_matrix(m[:3, :3] / scale)),
            (x, y, z),
            layer=thing.layer,
            capsules=capsules,
            morph=morph,
        )

    def _carried(self, capsules: NodeCapsules, world_from_node: FloatArray) -> FloatArray:
        moves = world_from_node @ np.linalg.inv(self._rest)
        stretch = np.cbrt(np.abs(np.linalg.det(moves[capsules.group, :3, :3])))
        return capsules.carried(moves[:, :3, :3], moves[:, :3, 3], stretch[:, None])


def _joint_capsules(thing: SceneObject, rest: FloatArray) -> NodeCapsules | None:
    """Return the capsules around the mesh of each joint.

    None without joints, or if the collider is a box.
    """
    if thing.collider == "box" or not any(node.skin for node in thing.asset.nodes):
        return None
    return NodeCapsules.around(thing.asset, rest, np.arange(len(rest)), len(rest))


def _bounds(thing: SceneObject) -> tuple[FloatArray, FloatArray]:
    """Return the lowest and the highest corner (3,) in the asset's axes at rest."""
    corners = np.concatenate([p_m for p_m, _ in collider_parts(thing)]).astype(np.float64)
    return corners.min(axis=0), corners.max(axis=0)


def _playing(asset: Asset, clip: Clip, t_ns: int) -> tuple[FloatArray, Mapping[int, FloatArray]]:
    """Return the nodes (n, 4, 4) in the asset's axes while a clip plays, and its morph weights
    beyond rest by node.
    """
    animation = asset.animations[clip.animation]
    if clip.speed and animation.duration_s > 0.0:
        period_s = animation.duration_s / clip.speed
        into_s = clip.phase_s + abs(clip.speed) * seconds_into(period_s, t_ns)
    else:
        into_s = clip.phase_s
    return asset.asset_from_node(sample(asset, animation, into_s)), morph_weights(
        asset, animation, into_s
    )
