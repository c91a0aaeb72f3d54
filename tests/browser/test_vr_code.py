"""The arithmetic of the page for headsets through changes.

Another scene, another clock, things that are taken away.
"""

from __future__ import annotations

import math

import pytest

from tests.browser.in_node import in_node

pytestmark = pytest.mark.browser


HEAD = """
import { Quaternion, Vector3 } from "./three.mjs";
import { HeadsetSpace } from "./world/space.mjs";
import { TrackedHead } from "./world/head.mjs";
const LEVEL = [0, 0, 0, 1];
const about = (angle) => [0, 0, Math.sin(angle / 2), Math.cos(angle / 2)];
const pose = (x, t_s) => ({ t_s, p_world_m: new Vector3(x, 0, 1.6), q_xyzw: new Quaternion() });
"""

# A headset that sways by 0.3 m to both sides, as mocap sees it, 30 times a second; space x ahead is
# world x.
SWAY = """
const swayed = (ms) => 0.3 * Math.sin(ms / 150);
function wear(space, fromMs, toMs, stamp_s, wayMs = () => 5) {
  let off_m = 0;
  for (let ms = fromMs; ms < toMs; ms += 10) {
    space.remember(ms, new Vector3(0, 1.6, -swayed(ms)), new Quaternion());
    if (ms % 30 !== 0) continue;
    space.align(pose(swayed(ms - wayMs(ms)), stamp_s(ms - wayMs(ms))), ms);
    off_m = Math.max(off_m, Math.abs(space.rig.position.x));
  }
  return off_m;
}
"""


def test_what_was_learnt_of_a_head_stays_when_the_scene_changes_while_it_is_turned() -> None:
    script = """function answer() {
      const bones = ["Hip", "Head", "LShoulder", "RShoulder"];
      const fact = (name, bones) => ({ name, kind: "human",
          skeleton: { bones, parents: [-1, 0, 0, 0] } });
      const read = (head, index, turn) => {
        const floats = [0, 0, 1, ...LEVEL, 0, 0, 1.6, ...about(turn), 0, 0.2, 1.4, ...LEVEL, 0,
            -0.2, 1.4, ...LEVEL];
        const actor = { index, state: "tracked", age_s: 0, p_world_m: [0, 0, 1], q_xyzw: LEVEL,
            speed_mps: 0 };
        const skeletons = [{ index, bones: new Float32Array(floats) }];
        const { q_xyzw } = head.read({ revision: 1, t_s: 0, skeletons, actors: [actor] });
        return 2 * Math.atan2(q_xyzw.z, q_xyzw.w);
      };
      const first = new TrackedHead(fact("ann", bones), 0);
      read(first, 0, 0);
      const same = new TrackedHead(fact("ann", [...bones]), 1, first);
      const before = read(same, 1, 1);
      same.recentre();
      return [before, read(same, 1, 1), read(new TrackedHead(fact("bob", bones), 0, first), 0, 1)];
    }"""
    kept, recentred, other = in_node(HEAD + script)
    assert kept == pytest.approx(1.0, abs=1e-6)
    assert (recentred, other) == pytest.approx((0.0, 0.0), abs=1e-6)


def test_a_human_whose_bones_nobody_told_yet_has_no_head_and_what_was_learnt_of_it_stays() -> None:
    script = """function answer() {
      const bones = ["Hip", "Head", "LShoulder", "RShoulder"];
      const skeleton = (bones) => bones && { bones, parents: bones.map(() => 0) };
      const fact = (bones) => ({ name: "ann", kind: "human", skeleton: skeleton(bones) });
      const read = (head, turn) => {
        const floats = [0, 0, 1, ...LEVEL, 0, 0, 1.6, ...about(turn), 0, 0.2, 1.4, ...LEVEL, 0,
            -0.2, 1.4, ...LEVEL];
        const actor = { index: 0, state: "tracked", age_s: 0, p_world_m: [0, 0, 1], q_xyzw: LEVEL,
            speed_mps: 0 };
        const skeletons = [{ index: 0, bones: new Float32Array(floats) }];
        const pose = head.read({ revision: 1, t_s: 0, skeletons, actors: [actor] });
        return pose && [pose.p_world_m.z, 2 * Math.atan2(pose.q_xyzw.z, pose.q_xyzw.w)];
      };
      const first = new TrackedHead(fact(bones), 0);
      read(first, 0);
      const away = new TrackedHead(fact(null), 0, first);
      const back = new TrackedHead(fact([...bones]), 0, away);
      const headless = new TrackedHead(fact(["Hip", "Skull"]), 0, back);
      return [read(away, 1), away.lack, read(back, 1), back.lack, read(headless, 1), headless.lack];
    }"""
    away, told, back, fine, headless, why = in_node(HEAD + script)
    assert (away, headless) == (None, None), "the root is no head: it is at the hips"
    assert (told, fine, why) == (
        "its skeleton is not known yet",
        "",
        'its skeleton has no bone named "head"',
    )
    assert back == pytest.approx([1.6, 1.0], abs=1e-6)


def test_the_world_stands_still_under_a_swaying_head_though_clocks_drift_and_begin_anew() -> None:
    script = """function answer() {
      const space = new HeadsetSpace();
      const steady = wear(space, 0, 3000, (ms) => 900 + ms / 1e3);
      // the machine was restarted
      const again = wear(space, 3000, 6000, (ms) => ms / 1e3);
      space.disconnect();
      // and its clock stood still
      const slept = wear(space, 12000, 15000, (ms) => (ms - 6000) / 1e3);
      const drift = wear(new HeadsetSpace(), 0, 600000, (ms) => 0.9997 * ms / 1e3);
      const jitter = wear(new HeadsetSpace(), 0, 3000, (ms) => ms / 1e3,
          (ms) => 5 + (ms > 500 ? ms % 170 : 0));
      return [steady, again, slept, drift, jitter];
    }"""
    assert in_node(HEAD + SWAY + script) == pytest.approx([0.0] * 5, abs=0.015)


def test_a_headset_that_tracks_itself_is_to_be_placed_anew_when_its_space_begins_anew() -> None:
    script = """function answer() {
      const space = new HeadsetSpace();
      const settled = [space.settled];
      const stand = () => {
        if (!space.settled) space.place(1, 2, 0);
        space.rig.updateMatrixWorld(true);
        settled.push(space.settled);
      };
      space.remember(0, new Vector3(2, 1.6, -3), new Quaternion());
      stand();
      space.forget();
      settled.push(space.settled);
      space.remember(0, new Vector3(0, 1.6, 0), new Quaternion());
      stand();
      return [settled, new Vector3(0, 1.6, 0).applyMatrix4(space.rig.matrixWorld).toArray()];
    }"""
    settled, at_m = in_node(HEAD + script)
    assert settled == [False, True, False, True]
    assert math.dist(at_m, (1.0, 2.0, 1.6)) < 1e-6


def test_what_is_taken_away_gives_back_all_that_it_holds_on_the_graphics_card() -> None:
    script = """
    import { Group, InstancedMesh, BoxGeometry, MeshBasicMaterial, Sprite, SpriteMaterial,
        Texture } from "./three.mjs";
    import { remove } from "./world/dispose.mjs";
    function answer() {
      const bars = new InstancedMesh(new BoxGeometry(), new MeshBasicMaterial(), 3);
      const sign = new Sprite(new SpriteMaterial({ map: new Texture() }));
      const given = [];
      const { geometry: shape, material: paint } = bars;
      const parts = { bars, shape, paint, sign: sign.material, text: sign.material.map,
          plate: sign.geometry };
      for (const [name, part] of Object.entries(parts))
          part.addEventListener("dispose", () => given.push(name));
      remove(new Group().add(bars, sign));
      return given.sort();
    }"""
    # Every sprite has the same plate.
    assert in_node(script) == ["bars", "paint", "shape", "sign", "text"]
