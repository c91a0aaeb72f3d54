"""Shipped humans as assets: joints and one skinned mesh each, made by recipe."""

from __future__ import annotations

from functools import cache

import numpy as np

from vil_renderer.embedded.actors.people.body import limb, shoe, trunk
from vil_renderer.embedded.actors.people.builds import BUILDS, HumanBuild
from vil_renderer.embedded.actors.people.hands import hand
from vil_renderer.embedded.actors.people.head import head
from vil_renderer.embedded.actors.people.joints import Joints, joints_of
from vil_renderer.embedded.actors.people.outfits import outfit
from vil_renderer.embedded.actors.people.weights import Blend, four_heaviest
from vil_renderer.embedded.assets.model import Asset, Node, Primitive, Skin
from vil_renderer.embedded.scenes.shapes import join


@cache
def figure(name: str = "human") -> Asset:
    """Return a human of :data:`BUILDS`: its joints and its one skinned mesh.

    Raises:
        KeyError: there is none of that name.
    """
    build = BUILDS[name]
    joints = joints_of(build)
    names = list(joints)
    places = build.size * np.array([place for _, place in joints.values()])
    nodes = []
    for i, (joint, (parent, _)) in enumerate(joints.items()):
        if parent:
            above = names.index(parent)
            nodes.append(Node(joint, above, places[i] - places[above]))
        else:
            nodes.append(Node(joint, -1, places[i].copy()))
    inverse_bind = np.tile(np.eye(4), (len(names), 1, 1))
    inverse_bind[:, :3, 3] = -places
    skin = Skin(tuple(range(len(names))), inverse_bind)
    nodes.append(Node(name, primitives=(_primitive(build, names, joints),), skin=skin))
    return Asset(name, tuple(nodes), origin="procedural")


def _primitive(build: HumanBuild, names: list[str], joints: Joints) -> Primitive:
    blend = Blend(names)
    parts = [*trunk(build, blend), *head(build, blend)]
    for side in ("Left", "Right"):
        parts += [limb(build, blend, joints, side, "arm"), limb(build, blend, joints, side, "leg")]
        parts += [*hand(build, blend, joints, side), shoe(blend, joints, side)]
    mesh = join([part for part, _ in parts])
    heaviest, shares = four_heaviest(np.concatenate([share for _, share in parts]))
    sized = type(mesh)(build.size * mesh.p_m, mesh.normal, mesh.uv, mesh.triangles)
    return sized.primitive(outfit(build), joints=heaviest, weights=shares)
