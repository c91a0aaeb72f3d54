"""Points over the stream: those that the depth pictures of the reader show, by every transport."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.common import wait_until
from tests.support.stream_rig import RawClient, StreamRig, header
from vil_bridge.client import Frame, Receiver, _decode
from vil_bridge.core.camera_model import Distortion, LensModel
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import DEPTH_NO_HIT, ImageArray
from vil_bridge.optics.lens import distort
from vil_bridge.outputs.stream.point_encoder import POINT, RayTable, encode_points

pytestmark = pytest.mark.wire

SIZE = (48, 64)
K = (60.0, 61.0, 31.0, 23.5)
LENS = Distortion(LensModel.PLUMB_BOB, (-0.2, 0.05, 0.001, -0.002, 0.0))


def ramp(dtype: str) -> ImageArray:
    """A floor that comes closer from row to row; nothing in the upper half and in one pixel."""
    v, u = np.mgrid[0 : SIZE[0], 0 : SIZE[1]]
    z_m = 10.0 - 0.125 * v + 0.0625 * u
    hits = (v >= SIZE[0] // 2) & ((u != 5) | (v != 30))
    if dtype == "u2":
        return np.where(hits, np.round(z_m * 655.35), DEPTH_NO_HIT).astype(np.uint16)
    return np.where(hits, z_m, 100.0).astype(np.float32)


def check(points: np.ndarray, lens: Distortion | None, half_a_step_m: float) -> None:
    """Each pixel that shows something has its point there, row by row, and no other has one."""
    u, v = points["u"].astype(int), points["v"].astype(int)
    assert len(points) == SIZE[0] * SIZE[1] // 2 - 1
    assert (np.diff(v * SIZE[1] + u) > 0).all() and (v >= SIZE[0] // 2).all()
    assert not ((u == 5) & (v == 30)).any()
    np.testing.assert_allclose(
        points["z"], 10.0 - 0.125 * v + 0.0625 * u, atol=half_a_step_m + 1e-5
    )
    ideal = np.stack((points["x"] / points["z"], points["y"] / points["z"]), axis=1)
    fx, fy, cx, cy = K
    x, y = distort(lens, ideal.astype(float)).T
    np.testing.assert_allclose(np.stack((fx * x + cx, fy * y + cy)), np.stack((u, v)), atol=1e-3)


@pytest.mark.parametrize("transport", ["tcp", "shm", "udp"])
@pytest.mark.parametrize(("modality", "dtype"), [("depth", "u2"), ("depth32", "f4")])
def test_points_are_those_of_the_depth(transport: str, modality: str, dtype: str) -> None:
    begin_ns = now_ns()
    upside_down = np.ascontiguousarray(ramp(dtype)[::-1])[::-1]  # as it comes from a renderer
    nothing = np.full_like(upside_down, DEPTH_NO_HIT if dtype == "u2" else 100.0)
    with (
        StreamRig({"front": (modality,)}) as rig,
        Receiver(
            rig.endpoint, modality=modality, variant="raw", encoding="points", transport=transport
        ) as receiver,
    ):
        wait_until(lambda: receiver.camera_info and rig.sink().wanted(modality, "raw"))
        number = 0

        def next_of(pixels: ImageArray) -> Frame | None:
            nonlocal number
            number += 1
            stamp = {"t_display_ns": begin_ns + number * 1_000_000}
            rig.offer(pixels, header(number, modality=modality, variant="raw", K=K, **stamp))
            return receiver.next(1.0)

        # The connection and the rays come a little later.
        while (frame := next_of(upside_down)) is None:
            assert number < 20
        empty = next_of(nothing)
        again = next_of(upside_down)
    assert frame.metadata["format"] == "points16"
    assert (frame.metadata["width"], frame.metadata["height"]) == (64, 48)
    check(frame.image, None, 0.5 / 655.35 if dtype == "u2" else 0.0)
    assert empty is not None and again is not None and len(empty.image) == 0
    np.testing.assert_array_equal(again.image, frame.image)
    assert receiver.counters["malformed"] == 0


def points_of(
    pixels: ImageArray,
    K_px: tuple[float, float, float, float],
    lens: Distortion | None,
    table: RayTable | None = None,
) -> np.ndarray:
    """Points of a picture, once its rays are there."""
    table = table or RayTable(lens)
    size = pixels.shape[0], pixels.shape[1], K_px
    assert table.rays(*size) is None
    wait_until(lambda: table.rays(*size) is not None)
    rays = table.rays(*size)
    assert rays is not None
    payload = encode_points(pixels, rays).payload
    assert isinstance(payload, bytes)
    return np.frombuffer(payload, POINT)


def test_a_lens_is_taken_out() -> None:
    bent = points_of(ramp("f4"), K, LENS)
    check(bent, LENS, 0.0)
    assert not np.allclose(points_of(ramp("f4"), K, None)["x"], bent["x"], atol=1e-2)


def test_pixels_to_which_the_lens_shows_nothing_have_no_points() -> None:
    folding = Distortion(LensModel.PLUMB_BOB, (-0.9, 0.0, 0.0, 0.0, 0.0))
    points = points_of(np.full(SIZE, 2.0, np.float32), (30.0, 30.0, 31.5, 23.5), folding)
    assert 0 < len(points) < SIZE[0] * SIZE[1]
    assert all(np.isfinite(points[axis]).all() for axis in "xyz")


def test_another_size_or_focal_length_has_other_rays() -> None:
    table, wide = RayTable(None), (30.0, 30.0, 31.0, 23.5)
    whole = np.full(SIZE, 2.0, np.float32)
    for pixels, K_px in ((whole, K), (whole[:24], K), (whole, wide)):
        points = points_of(pixels, K_px, None, table)
        assert len(points) == pixels.size
        np.testing.assert_allclose(points["x"][0], 2.0 * (0 - K_px[2]) / K_px[0], rtol=1e-6)


def test_a_reader_waits_for_the_rays_and_holds_up_no_other() -> None:
    """The rays of a large picture with a lens take some time.

    No other reader of the camera notices.
    """
    large = np.full((480, 640), 2.0, np.float32)
    with (
        StreamRig({"front": ("depth32",)}, lens=LENS) as rig,
        Receiver(
            rig.endpoint, modality="depth32", variant="raw", encoding="raw", name="other"
        ) as other,
        Receiver(
            rig.endpoint, modality="depth32", variant="raw", encoding="points", name="points"
        ) as points,
    ):
        wait_until(
            lambda: other.camera_info and points.camera_info and len(rig.sink().subscribers) == 2
        )
        number, begin_ns = 0, now_ns()
        got: dict[str, int] = {"other": 0, "points": 0}
        while not got["points"] and number < 2000:
            number += 1
            t_ns = begin_ns + number * 1_000_000
            rig.offer(large, header(number, modality="depth32", variant="raw", t_display_ns=t_ns))
            for name, receiver in (("other", other), ("points", points)):
                got[name] += receiver.next(0.02) is not None
        waited = rig.sink().dropped["preparing"]
    assert got["points"] == 1
    assert waited >= 1 and got["other"] >= 1


def test_pictures_and_compensated_depth_have_no_points() -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as raw:
        answer = raw.ask(type="register", v=1, camera="front", modality="depth", encoding="points")
        assert (
            "points come from pictures as they were rendered: ask for variant 'raw'"
            in answer["reason"]
        )
        answer = raw.ask(type="register", v=1, camera="front", variant="raw", encoding="points")
        assert "ask for modality 'depth' or 'depth32'" in answer["reason"]


def test_points_that_do_not_fit_the_picture_are_malformed() -> None:
    head = {"width": 10, "height": 10, "encoding": "points", "format": "points16"}
    good = np.zeros(1, POINT)
    assert len(_decode(head, good.tobytes())) == 1
    for field in ("u", "v"):
        outside = good.copy()
        outside[field] = 10
        with pytest.raises(ValueError, match="outside"):
            _decode(head, outside.tobytes())
    with pytest.raises(ValueError, match="buffer size"):
        _decode(head, good.tobytes()[:15])
