"""The embedded renderer's public names: all there, and imported no earlier than they are used."""

from __future__ import annotations

import sys

import pytest

import vil_renderer.embedded as embedded
from tests.support.programs import output


def test_every_public_name_is_there_once() -> None:
    for name in embedded.__all__:
        assert getattr(embedded, name).__doc__ or name.isupper()
    assert set(embedded.__all__) == set(embedded._HOME_OF)
    assert set(embedded.__all__) <= set(dir(embedded))
    with pytest.raises(AttributeError, match="has no attribute 'Rendrer'"):
        _ = embedded.Rendrer


@pytest.mark.process
def test_looking_at_it_and_reading_scenes_needs_no_graphics_and_no_embree() -> None:
    code = (
        "import sys\n"
        "import vil_renderer.embedded as e\n"
        "dir(e)\n"
        "assert not [m for m in sys.modules if m.startswith('vil_renderer.embedded.')]\n"
        "assert len(e.load_scene('empty').objects) > 0\n"
        "e.Scene, e.load_asset, e.RangeFinder, e.write_ply\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('moderngl', 'glcontext', "
        "'embreex', 'fcl')])\n"
    )
    assert output(sys.executable, "-c", code).split() == ["[]"]
