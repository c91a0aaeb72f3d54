"""OctoMap's files against golden ones, against OctoMap itself, and the rules about what is read."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vil_bridge.core.errors import ProtocolError
from vil_bridge.interfaces.voxel_box import DEPTH, keys_at
from vil_bridge.protocols.octomap import (
    CLAMPED_LOG_ODDS,
    Octree,
    centres_of,
    codes_of,
    keys_of,
    octree,
    read_octree,
    write_binary,
    write_full,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "octomap"
HIT = np.float32(np.log(0.7 / 0.3))


def golden(name: str) -> bytes:
    """The wall of 220 points at x = 2.05, seen once from (0.05, 0.05, 0.55), as OctoMap 1.10
    writes it.
    """
    return (GOLDEN / name).read_bytes()


def test_the_golden_tree_is_read() -> None:
    tree = read_octree(golden("wall.ot"))
    assert tree.resolution_m == 0.1 and len(tree.code) == 698
    occupied = tree.log_odds > 0.0
    assert occupied.sum() == 220 and (tree.depth[occupied] == DEPTH).all()
    codes, log_odds = tree.voxels(10_000)
    assert len(codes) == 1804 and (log_odds < 0.0).sum() == 1584
    assert log_odds.max() == HIT
    assert np.allclose(centres_of(keys_of(tree.code[occupied]), 0.1)[:, 0], 2.05)
    assert keys_at(np.array([[2.05, 0.05, 0.55]]), 0.1).tolist() == [[32788, 32768, 32773]]


def test_golden_trees_are_written_byte_by_byte() -> None:
    tree = read_octree(golden("wall.ot"))
    assert write_full(tree) == golden("wall.ot")
    assert write_binary(tree) == golden("wall.bt")
    assert len(golden("wall.bt")) == 660


def test_a_binary_tree_has_the_clamped_values() -> None:
    tree = read_octree(golden("wall.bt"))
    assert set(tree.log_odds.tolist()) == {float(v) for v in CLAMPED_LOG_ODDS}
    assert CLAMPED_LOG_ODDS[1] == pytest.approx(3.5110307) and CLAMPED_LOG_ODDS[0] == pytest.approx(
        -2.0, abs=1e-3
    )
    full, likely = read_octree(golden("wall.ot")).voxels(10_000), tree.voxels(10_000)
    assert np.array_equal(full[0], likely[0]) and np.array_equal(full[1] > 0, likely[1] > 0)
    assert write_binary(tree) == golden("wall.bt")


voxel_sets = st.dictionaries(
    st.tuples(*[st.integers(32766, 32771) | st.integers(0, 65535)] * 3),
    st.sampled_from((-2.0, -0.5, 0.0, 0.5, 3.5)),
    max_size=60,
)


@given(voxel_sets, st.floats(1e-3, 10.0))
@example({(x, y, z): 0.5 for x in (0, 1) for y in (0, 1) for z in (0, 1)}, 0.1)
def test_what_is_written_is_read(
    voxels: dict[tuple[int, int, int], float], resolution_m: float
) -> None:
    keys, log_odds = (
        np.array(list(voxels)).reshape(-1, 3),
        np.array(list(voxels.values()), np.float32),
    )
    codes = codes_of(keys)
    assert np.array_equal(keys_of(codes), keys)
    order = np.argsort(codes)
    tree = octree(resolution_m, codes[order], log_odds[order])
    full = read_octree(write_full(tree))
    assert full.resolution_m == resolution_m
    found = full.voxels(1000)
    assert np.array_equal(found[0], codes[order]) and np.array_equal(found[1], log_odds[order])
    likely = read_octree(write_binary(tree)).voxels(1000)
    assert np.array_equal(likely[0], codes[order])
    assert np.array_equal(likely[1] > 0.0, log_odds[order] >= 0.0)
    assert write_full(full) == write_full(tree)


def test_the_whole_world_as_one_leaf() -> None:
    """A binary tree has no leaf at its root: eight of them say the same."""
    tree = Octree(0.1, np.zeros(1, np.int64), np.zeros(1, np.uint8), np.ones(1, np.float32))
    assert len(read_octree(write_full(tree)).code) == 1
    assert read_octree(write_binary(tree)).depth.tolist() == [1] * 8
    with pytest.raises(ProtocolError, match="281,474,976,710,656 voxels"):
        tree.voxels(1_000_000)


def changed(name: str, old: bytes, new: bytes) -> bytes:
    content = golden(name)
    assert old in content
    return content.replace(old, new, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an OctoMap file"),
        (b"# Octomap OcTree file\n", "not an OctoMap file"),
        (changed("wall.ot", b"# Octomap OcTree file", b"0.1"), "not an OctoMap file"),
        (changed("wall.ot", b"id OcTree", b"id ColorOcTree"), "'ColorOcTree': only OcTree is read"),
        (changed("wall.ot", b"id OcTree\n", b""), "kind ''"),
        (changed("wall.ot", b"res 0.1", b"res nan"), "resolution must be positive"),
        (changed("wall.ot", b"res 0.1", b"res -1"), "resolution must be positive"),
        (changed("wall.ot", b"res 0.1", b"res x"), "as numbers"),
        (changed("wall.ot", b"size 959\n", b""), "as numbers"),
        (changed("wall.ot", b"size 959", b"size 958"), "958 nodes take 4790 bytes"),
        (changed("wall.ot", b"size 959", b"size 99999999999"), "at most 20,000,000 are read"),
        (changed("wall.ot", b"size 959", b"size -1"), "at most 20,000,000"),
        (changed("wall.ot", b"size 959", b"size 0"), "an empty tree has no data"),
        (golden("wall.ot")[:-1], "959 nodes take 4795 bytes"),
        (golden("wall.bt")[:-1], "2 bytes for each inner one"),
        (golden("wall.bt")[:-2], "the header 959"),
        (golden("wall.bt") + b"\x00\x00", "no children"),
        (changed("wall.bt", b"size 959", b"size 960"), "the header 960"),
        (changed("wall.ot", b"\x83\xe8X?\xa0", b"\x83\xe8X?\xa1"), "the data are not one tree"),
        (changed("wall.ot", b"\x83\xe8X?\xa0", b"\x00\x00\xc0\x7f\xa0"), "not finite"),
        (
            b"# Octomap OcTree file\nid OcTree\nsize 18\nres 1\ndata\n"
            + b"\0\0\0\0\1" * 17
            + bytes(5),
            "deeper than 16",
        ),
        (
            b"# Octomap OcTree binary file\nid OcTree\nsize 18\nres 1\ndata\n"
            + b"\3\0" * 16
            + b"\1\0",
            "deeper than 16",
        ),
    ],
)
def test_a_malformed_file_is_refused_in_words(content: bytes, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        read_octree(content)


@given(st.sampled_from(("wall.ot", "wall.bt")), st.data())
def test_any_changed_file_is_read_or_refused(name: str, data: st.DataObject) -> None:
    content = bytearray(golden(name))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))]
    try:
        tree = read_octree(bytes(content))
    except ProtocolError:
        return
    assert (np.diff(tree.code) > 0).all()
    write_binary(tree)


def test_octomap_writes_the_same_bytes() -> None:
    """Random voxels, hit or missed several times each.

    The whole neighbourhood of a corner, which is pruned.
    """
    pyoctomap = pytest.importorskip("pyoctomap", reason="the package is not installed (extra dev)")
    rng = np.random.default_rng(0)
    p_m = np.concatenate((rng.normal(0.0, 1.5, (20_000, 3)), rng.uniform(4.0, 4.8, (20_000, 3))))
    theirs = pyoctomap.OcTree(0.1)
    for p in p_m:
        theirs.updateNode(p, True)
    codes, counts = np.unique(codes_of(keys_at(p_m.astype(np.float32), 0.1)), return_counts=True)
    log_odds = np.zeros(len(codes), np.float32)
    for k in range(counts.max()):
        log_odds = np.where(counts > k, np.minimum(log_odds + HIT, CLAMPED_LOG_ODDS[1]), log_odds)
    ours = octree(0.1, codes, log_odds)
    assert len(ours.code) < len(codes), "nothing was pruned"
    assert write_full(ours) == theirs.write()
    assert write_binary(ours) == theirs.writeBinary()


def output_of(*command: object) -> str:
    """Return the output of a program."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout + done.stderr


@pytest.mark.process
def test_octomap_tools_read_our_files(tmp_path: Path) -> None:
    if shutil.which("compare_octrees") is None:
        pytest.skip("octomap-tools is not installed (scripts/foreign.sh)")
    tree = read_octree(golden("wall.ot"))
    (tmp_path / "a.ot").write_bytes(write_full(tree))
    (tmp_path / "b.ot").write_bytes(write_full(octree(0.1, *tree.voxels(10_000))))
    assert "KLD: 0" in output_of("compare_octrees", tmp_path / "a.ot", tmp_path / "b.ot")
    (tmp_path / "a.bt").write_bytes(write_binary(tree))
    assert "220" in output_of("bt2vrml", tmp_path / "a.bt")
