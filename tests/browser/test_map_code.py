"""Live maps on the page outside a browser.

Trees and changes as the bridge sends them, and the voxels drawn.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.browser.in_node import in_node
from vil_bridge.interfaces.voxels import MapSnapshot, Occupancy, VoxelChanges
from vil_bridge.protocols.octomap import codes_of, octree, write_binary
from vil_bridge.web.live.map_codec import encode_changes, encode_snapshot

pytestmark = pytest.mark.browser

READ = """
import { surface } from "./world/maps.mjs";
import { unpacked, VoxelSet } from "./world/octree.mjs";
function answer(messages) {
  const voxels = new VoxelSet(), refused = [];
  for (const message of messages) {
    try { voxels.take(Uint8Array.from(message).buffer);
        } catch (error) { refused.push(error.message); }
  }
  const keys = [...voxels.occupied].map(unpacked);
  return { resolution_m: voxels.resolution_m, keys, seen: surface(voxels.occupied).map(unpacked),
      refused };
}
"""
BLOCK = np.stack(np.meshgrid(*[np.arange(32768, 32772)] * 3), axis=-1).reshape(-1, 3)
"""Keys of 4 x 4 x 4 voxels, which one leaf of the tree holds."""
SCATTERED = np.random.default_rng(3).integers(32000, 33500, (200, 3))


def snapshot(keys: np.ndarray, number: int) -> bytes:
    tree = octree(0.25, np.sort(codes_of(keys)), np.full(len(keys), 3.0, np.float32))
    return encode_snapshot(MapSnapshot(number, 0, write_binary(tree)))


def test_trees_and_changes_are_the_bridges() -> None:
    keys = np.unique(np.concatenate((BLOCK, SCATTERED)), axis=0)
    states = np.array([Occupancy.OCCUPIED, Occupancy.FREE], np.uint8)
    changed = VoxelChanges(5, 6, 0, np.array([[40000, 1, 65535], BLOCK[0]], np.uint16), states)
    late = VoxelChanges(5, 7, 0, changed.keys[:0], states[:0])
    answer = in_node(
        READ, [list(m) for m in (snapshot(keys, 5), encode_changes(changed), encode_changes(late))]
    )
    expected = {tuple(key) for key in keys.tolist()} - {tuple(BLOCK[0].tolist())} | {
        (40000, 1, 65535)
    }
    assert answer["resolution_m"] == 0.25
    assert {tuple(key) for key in answer["keys"]} == expected
    assert answer["refused"] == ["changes since 5, but the map is 6"]


def test_hidden_voxels_are_not_drawn() -> None:
    answer = in_node(READ, [list(snapshot(BLOCK, 1))])
    inner = {key for key in map(tuple, BLOCK.tolist()) if all(32768 < axis < 32771 for axis in key)}
    assert len(inner) == 8
    assert {tuple(key) for key in answer["keys"]} - {tuple(key) for key in answer["seen"]} == inner


def test_malformed_messages_are_refused() -> None:
    good = snapshot(BLOCK, 1)
    deep = encode_snapshot(
        MapSnapshot(1, 0, good[16:].split(b"data\n")[0] + b"data\n" + b"\x03\x00" * 20)
    )
    full = encode_snapshot(
        MapSnapshot(1, 0, good[16:].split(b"data\n")[0] + b"data\n" + b"\xaa\xaa")
    )
    refused = in_node(
        READ, [list(m) for m in (b"\x09\x01" + bytes(14), good[:-1], good[:40], deep, full)]
    )["refused"]
    assert len(refused) == 5
    assert refused[0] == "kind 9 is not known"
    assert refused[3:] == ["the tree is too deep", "more than 2000000 occupied voxels"]
