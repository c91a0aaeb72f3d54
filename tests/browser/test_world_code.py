"""The page's arithmetic: the live feed's bytes, and where a headset's space stands in the world."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
import pytest

from tests.browser.in_node import in_node
from vil_adapters.lab.motions import Scenario
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, ActorState, TrackingState, WorldSnapshot
from vil_bridge.web.live.codec import encode_poses, encode_preview

pytestmark = pytest.mark.browser


DECODE = """
import { decode } from "./feed.mjs";
function answer(texts) {
  return texts.map((text) => {
    try {
      const message = decode(new Uint8Array(Buffer.from(text, "base64")).buffer);
      const skeletons = message.skeletons?.map((s) => [s.index, [...s.bones]]);
      return { ...message, skeletons, jpeg: message.jpeg?.size };
    } catch (error) { return error.name; }
  });
}"""

SHAPES = """
import { actorShape } from "./world/figures.mjs";
function answer(facts) {
  return facts.map((fact) => {
    const shape = actorShape(fact);
    shape.computeBoundingBox();
    const { min, max } = shape.boundingBox;
    return { low: min.toArray(), high: max.toArray(), corners: shape.attributes.position.count };
  });
}"""

ALIGN = """
import { Quaternion, Vector3 } from "./three.mjs";
import { HeadsetSpace } from "./world/space.mjs";
import { TrackedHead } from "./world/head.mjs";
const kind = (skeleton) => (skeleton === null ? "prop" : "human");
const fact = (skeleton) => ({ name: "wearer", kind: kind(skeleton), size_m: [1, 1, 1], skeleton });
function seen(space, p, q = [0, 0, 0, 1]) {
  space.rig.updateMatrixWorld(true);
  const eye = new Vector3(...p).applyMatrix4(space.rig.matrixWorld);
  const ahead = new Vector3(0, 0, -1).applyQuaternion(new Quaternion(...q))
      .transformDirection(space.rig.matrixWorld);
  return [...eye.toArray(), ...ahead.toArray()];
}"""


def decoded(*messages: bytes) -> Any:
    return in_node(DECODE, [base64.b64encode(message).decode() for message in messages])


def test_poses_and_skeletons_come_out_as_they_went_in() -> None:
    snapshot = Scenario.simulated().snapshot(2_500_000_000)
    assert snapshot is not None
    lost = ActorState(
        "box", ActorKind.PROP, TrackingState.LOST, 1_500_000_000, Transform.of((1.0, -2.0, 3.0))
    )
    actors = (*snapshot.actors, lost)
    told = encode_poses(WorldSnapshot(snapshot.t_ns, actors), np.array([1.0, np.nan, np.nan]), 7)
    (poses,) = decoded(told)
    assert (poses["revision"], poses["t_s"]) == (7, 2.5)
    assert [actor["state"] for actor in poses["actors"]] == ["tracked", "tracked", "lost"]
    for actor, sent in zip(poses["actors"], actors, strict=True):
        assert actor["p_world_m"] == pytest.approx(sent.T_world_body.p_m, abs=1e-5)
        assert actor["q_xyzw"] == pytest.approx(sent.T_world_body.q_xyzw, abs=1e-6)
    assert poses["actors"][0]["speed_mps"] == 1.0
    assert poses["actors"][2]["age_s"] == pytest.approx(1.5)
    skeleton = actors[1].skeleton
    assert skeleton is not None
    ((index, bones),) = poses["skeletons"]
    assert index == 1
    sent_bones = np.hstack((skeleton.p_m, skeleton.q_xyzw)).reshape(-1)
    assert bones == pytest.approx(sent_bones, abs=1e-5)


def test_a_preview_and_what_is_none_of_ours() -> None:
    header = {"camera": "front", "variant": "raw", "frame_id": 5, "age_s": None}
    preview, cut, other, empty = decoded(
        encode_preview(header, b"jpeg!"),
        encode_poses(WorldSnapshot(0, ()), np.zeros(0), 1)[:10],
        b"\x09\x01abc",
        b"",
    )
    assert (preview["header"], preview["jpeg"]) == (header, 5)
    assert (cut, other, empty) == ("RangeError", "RangeError", "RangeError")


def test_a_headset_that_tracks_itself_stands_where_it_was_put_and_faces_there() -> None:
    script = """function answer() {
      const space = new HeadsetSpace();
      const q = new Quaternion().setFromAxisAngle(new Vector3(0, 1, 0), 0.7);
      space.remember(0, new Vector3(2, 1.6, -3), q);
      space.place(1, 5, Math.PI / 2);
      return [seen(space, [2, 1.6, -3], q.toArray()), seen(space, [2, 1.6, -4])];
    }"""
    here, ahead = in_node(ALIGN + script)
    assert here == pytest.approx([1.0, 5.0, 1.6, 0.0, 1.0, 0.0], abs=1e-6)
    assert math.dist(ahead[:3], here[:3]) == pytest.approx(1.0)


def test_the_eyes_are_where_mocap_sees_them_and_the_headset_moves_them_at_once() -> None:
    script = """function answer() {
      const head = new TrackedHead(fact(null), 0);
      const space = new HeadsetSpace();
      space.eyes_m.set(0.1, 0, 0.05);
      const yaw = 2.5;
      const actor = { index: 0, state: "tracked", age_s: 0, p_world_m: [3, -1, 1.7], speed_mps: 0,
                      q_xyzw: [0, 0, Math.sin(yaw / 2), Math.cos(yaw / 2)] };
      const poses = { revision: 1, t_s: 100, actors: [actor], skeletons: [] };
      space.remember(5000, new Vector3(0.4, 1.5, 0.2), new Quaternion());
      space.remember(5200, new Vector3(9, 9, 9), new Quaternion());       // later than the pose
      // the least delay: stamp 100 s is 5010 ms
      space.align(head.read(poses), 5010);
      const eyes = seen(space, [0.4, 1.5, 0.2]);
      const ahead = seen(space, [0.4, 1.5, -0.8]);
      const none = head.read({ ...poses, actors: [{ ...actor, state: "stale" }] });
      return [eyes, ahead, none];
    }"""
    eyes, ahead, none = in_node(ALIGN + script)
    forward = np.array([math.cos(2.5), math.sin(2.5), 0.0])
    assert eyes[:3] == pytest.approx(np.array([3.0, -1.0, 1.75]) + 0.1 * forward, abs=1e-6)
    assert eyes[3:] == pytest.approx(forward, abs=1e-6)
    assert np.array(ahead[:3]) - eyes[:3] == pytest.approx(forward, abs=1e-6)
    assert none is None


def test_the_front_of_a_head_bone_is_learnt_from_the_shoulders() -> None:
    script = """function answer() {
      const bones = ["Hip", "Head", "LShoulder", "RShoulder"];
      const head = new TrackedHead(fact({ bones, parents: [-1, 0, 0, 0] }), 0);
      // Faces +y: left is -x. Its head bone points backwards, as one system has it.
      const level = [0, 0, 0, 1];
      const pose = (turn) => new Float32Array([
        0, 0, 1, ...level, 0, 0, 1.6, ...new Quaternion(0, 0, Math.sin(turn / 2),
            Math.cos(turn / 2))
          .multiply(new Quaternion(0, 0, 1, 0)).toArray(), -0.2, 0, 1.4, ...level, 0.2, 0, 1.4,
              ...level]);
      const read = (turn) => head.read({ revision: 1, t_s: 0,
          skeletons: [{ index: 0, bones: pose(turn) }],
        actors: [{ index: 0, state: "tracked", age_s: 0, p_world_m: [0, 0, 1], q_xyzw: level,
            speed_mps: 0 }] });
      return [0, 0.5].map((turn) => new Vector3(1, 0,
          0).applyQuaternion(read(turn).q_xyzw).toArray());
    }"""
    straight, turned = in_node(ALIGN + script)
    assert straight == pytest.approx([0.0, 1.0, 0.0], abs=1e-6)
    assert turned == pytest.approx([-math.sin(0.5), math.cos(0.5), 0.0], abs=1e-6)


def test_everything_is_in_the_picture_from_where_the_view_begins() -> None:
    script = """
    import { Matrix4, PerspectiveCamera, Vector3 } from "./three.mjs";
    import { distanceToSee } from "./world/fit.mjs";
    function answer(aspects) {
      const points = [[-4, -2, 0], [5, 3, 0], [0, 9, 2.5], [1, 1, 6]].map((p) => new Vector3(...p));
      const place = new Vector3(1, 2, 1);
      return aspects.map((aspect) => {
        const camera = new PerspectiveCamera(45, aspect, 0.05, 500);
        camera.up.set(0, 0, 1);
        camera.position.copy(place).add(new Vector3(-0.55, -0.75, 0.6).normalize());
        camera.lookAt(place);
        const away = camera.position.clone().sub(place);
        const far = distanceToSee(points, place, camera.quaternion, Math.PI / 4, aspect);
        camera.position.copy(place).addScaledVector(away, far);
        camera.updateMatrixWorld();
        const seen = points.map((point) => point.clone().project(camera));
        return Math.max(...seen.flatMap(({ x, y }) => [Math.abs(x), Math.abs(y)]));
      });
    }"""
    outermost = in_node(script, [0.4, 1.0, 2.5])
    assert outermost == pytest.approx([0.8, 0.8, 0.8])


def test_each_model_of_a_vehicle_has_a_shape_of_its_size() -> None:
    sizes = {
        "quadrotor": (0.4, 0.4, 0.15),
        "hexarotor": (0.8, 0.8, 0.3),
        "octorotor": (1.0, 1.0, 0.3),
        "fixed_wing": (1.0, 1.6, 0.3),
        "car": (4.0, 1.8, 1.5),
        "rover": (0.7, 0.5, 0.4),
    }
    facts = [
        {"kind": "vehicle", "prefab": prefab, "size_m": size_m} for prefab, size_m in sizes.items()
    ]
    shapes = in_node(SHAPES, facts)
    for (prefab, size_m), shape in zip(sizes.items(), shapes, strict=True):
        extent = np.subtract(shape["high"], shape["low"])
        assert np.all(extent <= np.multiply(size_m, 1.26)), prefab
        assert np.all(extent[:2] >= np.multiply(size_m[:2], 0.8)), prefab
        assert shape["low"][2] >= -0.5 * size_m[2] - 1e-6, f"{prefab} stands on its lowest point"
    corners = [shape["corners"] for shape in shapes]
    assert corners[0] < corners[1] < corners[2], "four, six and eight rotors"
    assert len({*corners[2:5]}) == 3
    (other,) = in_node(
        SHAPES, [{"kind": "vehicle", "prefab": "mine", "size_m": sizes["quadrotor"]}]
    )
    assert other == shapes[0]
