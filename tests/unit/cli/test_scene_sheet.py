"""``vil-bridge scene sheet``: every modality of a scene on one picture.

The sheets that the documentation shows.
"""

from __future__ import annotations

import re
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from tests.support.common import ROOT, needs_gl
from vil_bridge.cli.main import app
from vil_bridge.core.types import ImageArray
from vil_renderer.embedded.scenefile import scene_names

SHEETS = ROOT / "docs" / "figures" / "sheets"
CELL = (360, 480)


@pytest.mark.process
@pytest.mark.gl
def test_a_sheet_shows_every_modality(tmp_path: Path) -> None:
    needs_gl()
    out = tmp_path / "deep" / "sheet.png"
    done = CliRunner().invoke(
        app, ["scene", "sheet", "empty", "--profile", "low", "--out", str(out)]
    )
    assert done.exit_code == 0, done.output
    assert done.output == f"wrote {out}\n"
    picture = read(out).astype(float)
    assert picture.shape == (4 * CELL[0], 3 * CELL[1], 3)
    cells = [cell(picture, number) for number in range(12)]
    rgb, grey, _, depth, normals, semantic, instance, flow, layer, *others = cells
    # Sky above, a floor below, in colour and in grey.
    assert rgb[40:100, ..., 2].mean() > rgb[40:100, ..., 0].mean() + 20
    assert np.abs(rgb @ (0.299, 0.587, 0.114) - grey[..., 0])[30:].max() <= 1.2
    assert depth[60].min() == 255 and np.all(np.diff(depth[220:, 240, 0]) <= 0)
    assert np.abs(normals[-10, 240] - (127.5, 0, 127.5)).max() < 15
    for ids in (semantic, instance):
        assert ids[40:60].max() == 0 and len(np.unique(ids[30:].reshape(-1, 3), axis=0)) >= 4
    assert flow[200:].std() > 2
    # The drone and the human alone, over checks.
    seen = np.ptp(layer[30:], axis=-1) > 12
    assert 0.005 < seen.mean() < 0.1
    assert all(np.abs(other - rgb)[30:].mean() > 0.5 for other in others)


def read(path: Path) -> ImageArray:
    """A picture, (h, w, 3), RGB."""
    found = cv2.imread(str(path))
    assert found is not None
    return np.asarray(found[..., ::-1])


def cell(sheet: ImageArray, number: int) -> ImageArray:
    """One picture of a sheet, (h, w, 3)."""
    row, column = divmod(number, 3)
    return sheet[row * CELL[0] : (row + 1) * CELL[0], column * CELL[1] : (column + 1) * CELL[1]]


def test_a_format_that_is_not_written_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["scene", "sheet", "empty", "--out", str(tmp_path / "sheet.tga")]
    )
    assert done.exit_code == 2
    assert ".jpg or .png" in done.output


def test_the_documentation_shows_a_sheet_of_every_shipped_scene() -> None:
    page = (ROOT / "docs" / "guides" / "scenes.md").read_text(encoding="utf-8")
    assert (
        sorted(re.findall(r"!\[[^]]+\]\(\.\./figures/sheets/(\w+)\.jpg\)", page)) == scene_names()
    )
    assert sorted(re.findall(r"vil-bridge scene sheet (\w+)", page)) == scene_names()
    for name in scene_names():
        assert 20_000 < (SHEETS / f"{name}.jpg").stat().st_size < 350_000
        assert read(SHEETS / f"{name}.jpg").shape == (4 * CELL[0], 3 * CELL[1], 3)


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("guides/scenes.md", ("scenes",)),
        ("guides/weather.md", ("weather_outdoors", "weather_indoors")),
        ("reference/cameras.md", ("cameras",)),
    ],
)
def test_the_documentation_shows_the_contact_sheets(page: str, names: tuple[str, ...]) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for name in names:
        assert f"](../figures/sheets/{name}.webp)" in text
        assert 20_000 < (SHEETS / f"{name}.webp").stat().st_size < 300_000
        assert read(SHEETS / f"{name}.webp").std() > 30.0
