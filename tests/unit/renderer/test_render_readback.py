"""Reading through mapped buffers, as on a GPU.

The same pixels as read directly, and memory that outlives its use.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest
from moderngl import InvalidObject

from tests.support.render import AHEAD, NOBODY, at, camera, facing, scene_of, shot, thing
from vil_bridge.core.types import ImageArray, Modality, RenderedImage, View, WorldSnapshot
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.embedded.engine import readback

pytestmark = pytest.mark.gl

SCENE = scene_of(
    *(
        thing(f"card{i}", facing(3.0 + i, 0.4, at_m=(0.4 * i, 0.0)), instance=i + 1)
        for i in range(3)
    )
)
MODALITIES = tuple(m for m in Modality if m is not Modality.GRAY)


def _assert_same(images: tuple[RenderedImage, ...], expected: list[ImageArray]) -> None:
    for image, pixels in zip(images, expected, strict=True):
        np.testing.assert_array_equal(image.pixels, pixels)


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedRenderer]:
    """A renderer that takes its OpenGL for a GPU's."""
    monkeypatch.setattr(readback, "is_software", lambda gl_renderer: False)
    with EmbeddedRenderer(SCENE, "high") as made:
        if not isinstance(made._opengl.readback, readback.RingReadback):
            pytest.skip("this OpenGL has no buffers that stay mapped")
        yield made


def _reader(renderer: EmbeddedRenderer) -> readback.RingReadback:
    assert isinstance(renderer._opengl.readback, readback.RingReadback)
    return renderer._opengl.readback


def _views(count: int, modalities: tuple[Modality, ...], t_ns: int = 0) -> list[View]:
    """Views of cameras of three sizes along a line, all modalities of each."""
    sizes = ((64, 48), (33, 21), (80, 60))
    cameras = [camera(f"c{i}", size=sizes[i % 3]) for i in range(count)]
    places = [at((0.05 * i + 1e-8 * t_ns, 0.0, 0.0)) for i in range(count)]
    return [
        View(c, m, place, t_ns)
        for c, place in zip(cameras, places, strict=True)
        for m in modalities
    ]


def _copies(images: tuple[RenderedImage, ...]) -> list[ImageArray]:
    return [np.array(image.pixels) for image in images]


def test_mapped_buffers_hold_the_pixels_that_are_read_directly(
    ring: EmbeddedRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readback, "is_software", lambda gl_renderer: True)
    with EmbeddedRenderer(SCENE, "high") as direct:
        assert isinstance(direct._opengl.readback, readback.DirectReadback)
        for t_ns in (0, 1_000_000):
            views, snapshot = _views(12, MODALITIES, t_ns), WorldSnapshot(t_ns, ())
            for a, b in zip(
                ring.render(views, snapshot), direct.render(views, snapshot), strict=True
            ):
                assert a.pixels.dtype == b.pixels.dtype and a.pixels.flags.c_contiguous
                np.testing.assert_array_equal(a.pixels, b.pixels, err_msg=a.view.key)
                np.testing.assert_array_equal(a.valid, b.valid)


def test_a_picture_stays_while_it_is_held_and_its_memory_is_used_again(
    ring: EmbeddedRenderer,
) -> None:
    views = _views(4, (Modality.RGB, Modality.FLOW))
    held = ring.render(views, NOBODY)
    expected = _copies(held)
    part = held[0].pixels[3:9]
    made = _reader(ring)._slots
    for t_ns in range(1, 6):
        ring.render(_views(4, (Modality.RGB, Modality.FLOW), t_ns * 10_000_000), NOBODY)
    assert _reader(ring)._slots <= 2 * made, "buffers that are free again are used again"
    _assert_same(held, expected)
    del held
    gc.collect()
    ring.render(_views(4, (Modality.RGB,), 80_000_000), NOBODY)
    np.testing.assert_array_equal(part, expected[0][3:9], err_msg="a part of a picture holds it")


def test_pictures_outlive_their_renderer(ring: EmbeddedRenderer) -> None:
    picture = shot(ring, camera(), T_world_camera=AHEAD)
    expected = picture.copy()
    ring.close()
    assert not isinstance(ring._ctx.mglo, InvalidObject)
    np.testing.assert_array_equal(picture, expected)
    del picture
    gc.collect()
    assert isinstance(ring._ctx.mglo, InvalidObject), (
        "with the last picture the context is released"
    )


def test_more_pictures_than_the_ring_holds_are_read_all_the_same(
    ring: EmbeddedRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = _views(12, (Modality.RGB,))
    expected = _copies(ring.render(views, NOBODY))
    limit = 3 * 80 * 60 * 3
    monkeypatch.setattr(readback, "_RING_BYTES", limit)
    gc.collect()
    held = [ring.render(views, NOBODY) for _ in range(3)]
    while held:
        _assert_same(held.pop(), expected)
    gc.collect()
    shot(ring, camera("other", size=(40, 30)))
    assert _reader(ring)._bytes <= limit, "free buffers of other sizes make room"
