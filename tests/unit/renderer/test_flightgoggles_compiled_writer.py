"""Pose messages whose numbers the kernel writes, against those of the structures."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from tests.support.flightgoggles import FRONT, PREFABS, ask, drone, human, pose_at, view
from vil_bridge.core.block_snapshot import ActorTable, BlockSnapshot
from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform, q_normalize
from vil_bridge.core.types import ActorKind, ActorState, Lighting, RenderRequest, TrackingState
from vil_bridge.kernel import library
from vil_renderer.flightgoggles.codec import WrittenPose, decode_pose, encode_pose
from vil_renderer.flightgoggles.compiled_writer import CompiledPoseWriter
from vil_renderer.flightgoggles.convert import PoseWriter
from vil_renderer.flightgoggles.messages import PoseMessage

pytestmark = pytest.mark.skipif(
    library.KERNEL is None, reason=f"no compiled kernel: {library.ABSENT}"
)


class Pair:
    """Both writers, with the same past."""

    def __init__(self) -> None:
        self.twin, self.compiled = PoseWriter("Hall", PREFABS), CompiledPoseWriter("Hall", PREFABS)

    def assert_same(self, request: RenderRequest) -> tuple[PoseMessage, object]:
        """Return the twin's message, and what the compiled writer made."""
        written, plain_one = self.compiled.message(request), self.twin.message(request)
        assert isinstance(plain_one, PoseMessage)
        if isinstance(written, WrittenPose):
            plain_one.utime = plain_one.ntime
        one, other = decode_pose(encode_pose(plain_one)), decode_pose(encode_pose(written))
        plain, numbers = _split(msgspec.to_builtins(one))
        plain_too, numbers_too = _split(msgspec.to_builtins(other))
        assert plain_too == plain
        np.testing.assert_allclose(numbers_too, numbers, rtol=1e-12, atol=6e-10)
        assert self.compiled.without_prefab == self.twin.without_prefab
        assert self.compiled.disputed == self.twin.disputed
        return one, written


def _split(value: object) -> tuple[object, list[float]]:
    """Return a message with its real numbers taken out, and these."""
    numbers: list[float] = []

    def walk(part: object) -> object:
        if isinstance(part, float):
            numbers.append(part)
            return "number"
        if isinstance(part, dict):
            return {key: walk(item) for key, item in part.items()}
        return [walk(item) for item in part] if isinstance(part, list | tuple) else part

    return walk(value), numbers


def drawn(rng: np.random.Generator, name: str, scale_m: float) -> ActorState:
    pose = Transform(scale_m * rng.standard_normal(3), q_normalize(rng.standard_normal(4)))
    return replace(drone(name, pose), state=TrackingState.TRACKED)


@pytest.mark.parametrize("scale_m", [0.0, 1e-9, 1.0, 1e3, 9e7])
def test_the_kernel_writes_what_the_structures_say(scale_m: float) -> None:
    rng, pair = np.random.default_rng(0), Pair()
    for number in range(1, 40):
        actors = [
            drawn(rng, name, scale_m) for name in ("one", 'quote " and \\ and \x01', "ünï", "four")
        ]
        _, written = pair.assert_same(ask(number, actors=actors))
        assert isinstance(written, WrittenPose)


def test_actors_come_go_hide_and_change() -> None:
    rng, pair = np.random.default_rng(1), Pair()
    for number in range(1, 200):
        actors = [
            drawn(rng, name, 3.0) for name in ("one", "two", "three", "four") if rng.random() < 0.8
        ]
        if actors and rng.random() < 0.2:
            actors[0] = replace(actors[0], state=TrackingState.LOST)
        if actors and rng.random() < 0.2:
            actors[-1] = replace(
                actors[-1], size_m=(1.0, 2.0, 3.0), prefab=str(rng.choice(["Gate", "Box"]))
            )
        if rng.random() < 0.2:
            actors.append(replace(drawn(rng, "prop", 3.0), kind=ActorKind.PROP, prefab=""))
        if rng.random() < 0.2:
            actors.append(human(rng.random()))
        hide = tuple(name for name in ("one", "two") if rng.random() < 0.3)
        views = (view(FRONT, hide=hide), view(replace(FRONT, name="rear"), hide=("one",)))
        pair.assert_same(ask(number, views, actors))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_refused_as_before(wrong: float) -> None:
    pair = Pair()
    pair.assert_same(ask(1, actors=[drone("d", pose_at(0.0, 0.0, 1.0))]))
    broken = ask(2, actors=[drone("d", Transform.of((wrong, 0.0, 0.0)))])
    for writer in (pair.twin, pair.compiled):
        with pytest.raises(RendererError, match="not finite"):
            encode_pose(writer.message(broken))


def test_blocks_give_the_messages_of_their_actors() -> None:
    rng, pair = np.random.default_rng(2), Pair()
    names, rear = ("one", "two", "three"), replace(FRONT, name="rear")
    table = ActorTable(names, (ActorKind.VEHICLE,) * 3, ("", "Gate", ""), ((0.3, 0.2, 0.1),) * 3)
    for number in range(1, 100):
        poses = np.concatenate(
            (3.0 * rng.standard_normal((3, 3)), q_normalize(rng.standard_normal((3, 4)))), axis=1
        )
        states = [TrackingState(str(rng.choice(["tracked", "lost"]))) for _ in names]
        lighting = Lighting(12.0) if rng.random() < 0.3 else None
        snapshot = BlockSnapshot.of(number, table, poses, states, [0] * 3, [None] * 3, lighting)
        views = tuple(
            view(camera, hide=(name,), due=bool(rng.random() < 0.5))
            for camera, name in zip((FRONT, rear), names, strict=False)
        )
        pair.assert_same(replace(ask(number, views), snapshot=snapshot))


def test_a_written_message_has_the_number_and_ring_of_its_sending() -> None:
    written = CompiledPoseWriter("Hall", PREFABS).message(
        ask(7, actors=[drone("d", pose_at(0.0, 0.0, 1.0))])
    )
    assert isinstance(written, WrittenPose)
    first = decode_pose(encode_pose(written))
    again = decode_pose(encode_pose(WrittenPose(written.text, 8, "0" * 32)))
    assert first.vil is not msgspec.UNSET and again.vil is not msgspec.UNSET
    assert (first.ntime, first.utime, first.vil.ring) == (7, 7, msgspec.UNSET)
    assert (again.ntime, again.utime, again.vil.ring) == (8, 8, "0" * 32)


def test_a_number_too_large_for_nine_decimals_is_written_with_all_its_digits() -> None:
    message, written = Pair().assert_same(ask(1, actors=[drone("d", pose_at(2e9, 0.0, 1.0))]))
    assert not isinstance(written, WrittenPose)
    assert message.objects[0].position[0] == 2e9
