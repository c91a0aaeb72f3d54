"""``vil-bridge bench realism``.

Its measures against closed forms, its list of real pictures, its rows.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import cv2
import numpy as np
import pytest

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import FloatArray, ImageArray
from vil_bridge.tools.bench.realism import measures
from vil_bridge.tools.bench.realism.real_set import (
    SIZE_PX,
    RealPicture,
    brought,
    contents_of,
    files_of,
    pixels_of,
    read_list,
    store,
)
from vil_bridge.tools.bench.realism.rendered import VOLUMES, pictures_of
from vil_bridge.tools.bench.realism.table import TRACK_UNITS, measured, rows_of
from vil_bridge.tools.bench.realism.tracks import STEPS, track_lengths
from vil_renderer.embedded import scene_names


def spectral_noise(exponent: float, seed: int = 1) -> ImageArray:
    """Return noise (480, 640), uint8, whose power is proportional to frequency^exponent."""
    rng = np.random.default_rng(seed)
    f = np.hypot(np.fft.fftfreq(480)[:, None], np.fft.rfftfreq(640)[None, :])
    f[0, 0] = 1.0
    made = np.fft.irfft2(
        np.fft.rfft2(rng.standard_normal((480, 640))) * f ** (0.5 * exponent), (480, 640)
    )
    return levels(128.0 + 30.0 * (made - made.mean()) / made.std())


def levels(values: FloatArray) -> ImageArray:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("exponent", [0.0, -1.0, -2.0, -3.0])
def test_the_slope_is_that_of_the_noise(exponent: float) -> None:
    assert measures.spectrum_slope(spectral_noise(exponent)) == pytest.approx(exponent, abs=0.1)


def test_a_plain_picture_has_no_slope_and_no_edges() -> None:
    plain = np.full((480, 640), 90, np.uint8)
    assert np.isnan(measures.spectrum_slope(plain))
    assert not measures.gradient(plain).any()
    assert measures.noise(plain) == measures.noise_flat(plain) == 0.0


def test_the_gradient_of_a_ramp_is_its_slope() -> None:
    y, x = np.indices((48, 64), dtype=np.float64)
    np.testing.assert_allclose(measures.gradient(levels(3.0 * x + 1.0 * y)), np.hypot(3.0, 1.0))


def test_an_edge_has_no_corner_response_but_a_corner_has() -> None:
    edge = np.zeros((48, 64), np.uint8)
    edge[:, 32:] = 200
    corner = edge.copy()
    corner[24:] = 0
    assert measures.corner_response(edge).max() == pytest.approx(-3.0)
    assert measures.corner_response(corner).max() > 0.0


@pytest.mark.parametrize("sigma", [1.0, 3.0, 8.0])
def test_the_noise_is_that_which_was_added(sigma: float) -> None:
    y, x = np.indices((480, 640), dtype=np.float64)
    rng = np.random.default_rng(3)
    noisy = levels(60.0 + 0.1 * x + 0.1 * y + rng.normal(0.0, sigma, x.shape))
    rounded = np.hypot(sigma, 12.0**-0.5)
    assert measures.noise(noisy) == pytest.approx(rounded, rel=0.02)
    assert measures.noise_flat(noisy) == pytest.approx(rounded, rel=0.12)


def test_noise_of_flat_blocks_leaves_out_what_is_cut_off() -> None:
    rng = np.random.default_rng(3)
    noisy = levels(128.0 + rng.normal(0.0, 4.0, (480, 640)))
    noisy[:, :320] = 255
    assert measures.noise_flat(noisy) == pytest.approx(4.0, rel=0.12)
    assert np.isnan(measures.noise_flat(np.full((480, 640), 255, np.uint8)))


def test_colours_of_known_pictures() -> None:
    red = np.full((48, 64, 3), (200, 100, 50), np.uint8)
    found = measures.colours(red)
    assert found["saturation"] == pytest.approx(0.75)
    assert found["colourfulness"] == pytest.approx(0.3 * np.hypot(200.0 - 100.0, 150.0 - 50.0))
    assert (found["red_over_green"], found["blue_over_green"]) == pytest.approx((2.0, 0.5))
    assert measures.colours(np.full((48, 64, 3), 70, np.uint8)) == {}


def test_corners_of_a_rich_picture_are_followed_and_noise_alone_is_not() -> None:
    rng = np.random.default_rng(5)
    blocks = np.kron(rng.integers(0, 256, (24, 32), dtype=np.uint8), np.ones((20, 20), np.uint8))
    rich, poor = track_lengths(blocks), track_lengths(np.full((480, 640), 128, np.uint8))
    assert len(rich) > 100
    assert rich.max() == STEPS
    assert rich.mean() > 0.6 * STEPS
    assert poor.mean() < 1.0


def entry(data: bytes, path: str = "data/a.png", frame: int | None = None) -> RealPicture:
    return RealPicture(
        "things",
        "1.0",
        "sdist",
        "MIT",
        path,
        frame,
        hashlib.sha256(data).hexdigest(),
        "room",
        "a room",
    )


def png(colour: ImageArray) -> bytes:
    return cv2.imencode(".png", colour)[1].tobytes()


def test_a_file_with_another_checksum_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"data/a\.png of things 1\.0 has the SHA-256 [0-9a-f]{64}, the list has"
    ):
        store(entry(b"the picture"), b"another picture", tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


def test_files_come_out_of_both_forms_of_packages(tmp_path: Path) -> None:
    picture = entry(b"the picture")
    with tarfile.open(tmp_path / "things-1.0.tar.gz", "w:gz") as sdist:
        info = tarfile.TarInfo("things-1.0/data/a.png")
        info.size = len(b"the picture")
        sdist.addfile(info, io.BytesIO(b"the picture"))
    with zipfile.ZipFile(tmp_path / "things-1.0.whl", "w") as wheel:
        wheel.writestr("data/a.png", b"the picture")
    for archive in ("things-1.0.tar.gz", "things-1.0.whl"):
        assert contents_of(tmp_path / archive, {picture.path, "data/b.png"}) == {
            picture.path: b"the picture"
        }


def test_a_file_that_its_package_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data/a\.png of things 1\.0 is not in its sdist\."):
        store(entry(b"the picture"), None, tmp_path / "a.png")


def test_pictures_in_the_cache_are_read_without_a_package_index(tmp_path: Path) -> None:
    colour = np.zeros((100, 200, 3), np.uint8)
    colour[:, :100] = (10, 20, 30)
    picture = entry(png(colour[..., ::-1]))
    (tmp_path / f"{picture.sha256}.png").write_bytes(png(colour[..., ::-1]))
    ((found, pixels),) = pixels_of(files_of([picture], tmp_path))
    assert found == picture
    assert pixels.shape == (480, 640, 3)
    assert pixels[240, 100].tolist() == [10, 20, 30]
    assert pixels[240, 540].tolist() == [0, 0, 0]


@pytest.mark.process
def test_a_missing_package_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(
        ConfigError,
        match=r"the sdist of things 1\.0, .* cannot be downloaded: .*Connect this machine",
    ):
        files_of([entry(b"the picture")], tmp_path)


def test_a_file_that_is_no_picture_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"no picture")
    with pytest.raises(ConfigError, match=r"OpenCV cannot read .*a\.png"):
        list(pixels_of({entry(b"no picture"): path}))


@pytest.mark.parametrize("shape", [(480, 640), (1920, 1080), (427, 640)])
def test_pictures_are_cut_in_the_middle(shape: tuple[int, int]) -> None:
    x = np.indices(shape, dtype=np.float64)[1]
    made = brought(np.repeat(levels(x * 255.0 / shape[1])[..., None], 3, axis=2))
    assert made.shape == (SIZE_PX[1], SIZE_PX[0], 3)
    assert made[240, 319:321].mean() == pytest.approx(127.5, abs=1.5)


def test_the_list_has_what_the_comparison_promises() -> None:
    pictures = read_list()
    assert len(pictures) >= 40
    assert len({p.package for p in pictures}) >= 3
    assert len({(p.sha256, p.frame) for p in pictures}) == len(pictures)
    assert max(Counter(p.place for p in pictures).values()) <= 3
    assert all(p.licence and len(p.sha256) == 64 and p.form in ("wheel", "sdist") for p in pictures)


def test_rows_say_where_ours_lie() -> None:
    real = [{"spectrum_slope": float(v), "saturation": float("nan")} for v in range(21)]
    ours = [{"spectrum_slope": v} for v in (-1.0, 0.5, 3.0)]
    rows = {row.name: row for row in rows_of(real, ours)}
    assert rows["spectrum_slope"].value == 0.5
    assert rows["spectrum_slope_real_p5"].value == 1.0
    assert rows["spectrum_slope_real_p95"].value == 19.0
    assert rows["spectrum_slope_percentile"].value == pytest.approx(100.0 / 21.0)
    assert rows["spectrum_slope_inside_share"].value == pytest.approx(1.0 / 3.0)
    assert rows["spectrum_slope_within"].value == 0.0
    assert rows["saturation_within"].value is None
    assert rows["rows_within"].value == 0.0
    assert rows["rows_within"].samples == len(measures.UNITS) + len(TRACK_UNITS)


def test_pictures_like_the_real_ones_are_within() -> None:
    real = [measured(np.repeat(spectral_noise(-2.0, n)[..., None], 3, axis=2)) for n in range(5)]
    rows = {row.name: row.value for row in rows_of(real, real)}
    assert rows["spectrum_slope_within"] == rows["klt_track_steps_within"] == 1.0
    assert rows["saturation_within"] is None  # gray pictures have no colours


def test_every_shipped_scene_is_compared() -> None:
    assert set(VOLUMES) == set(scene_names())


def test_pictures_of_a_scene_are_the_same_at_every_call() -> None:
    first, again = (list(pictures_of("blocks", 1, baked=False)) for _ in range(2))
    assert len(first) == 1
    assert first[0].shape == (480, 640, 3)
    assert first[0].std() > 5.0
    np.testing.assert_array_equal(first[0], again[0])
