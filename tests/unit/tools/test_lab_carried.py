"""The lab's carried body makes exactly the moves that align asks for."""

from __future__ import annotations

import numpy as np

from vil_adapters.motions.carried_body import CarriedMotion
from vil_bridge.core.geometry import Transform
from vil_bridge.setup.align.proposal import mounting_of, propose
from vil_bridge.setup.align.segmentation import PoseTrack, find_moves

S = 1_000_000_000


def test_align_finds_how_the_markers_sit() -> None:
    motion = CarriedMotion("drone")
    t_ns = np.arange(18 * S, 37 * S, S // 60, dtype=np.int64)
    frames = [motion.at(int(t)) for t in t_ns]
    track = PoseTrack(
        t_ns, np.array([f.p_m[0] for f in frames]), np.array([f.q_xyzw[0] for f in frames])
    )
    proposal = propose(
        mounting_of(find_moves(track)), T_world_room=Transform.identity(), up_axis="z"
    )
    assert proposal.up_axis is None
    np.testing.assert_allclose(proposal.T_body_markers.p_m, (0.02, -0.01, 0.03), atol=0.003)
    np.testing.assert_allclose(
        2 * np.arcsin(proposal.T_body_markers.q_xyzw[2]), np.radians(30.0), atol=0.02
    )


def test_it_comes_back_to_where_it_began() -> None:
    motion = CarriedMotion("drone")
    for t_ns in (0, 10 * S):
        again = motion.T_room_body(t_ns + round(39.3 * S))
        np.testing.assert_allclose(again.p_m, motion.T_room_body(t_ns).p_m, atol=0.005)
    frames = [motion.T_room_body(n * S // 100) for n in range(80 * 100)]
    steps_m = np.linalg.norm(np.diff([f.p_m for f in frames], axis=0), axis=1)
    assert steps_m.max() * 100 < 2.0, "no jump, also where it starts over"
