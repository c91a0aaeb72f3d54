"""Fixtures that several files of unit tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.render_support import Renderers


@pytest.fixture(scope="module")
def renderers() -> Iterator[Renderers]:
    """Renderers by scene and profile for the tests of one file."""
    from tests.render_support import Renderers  # not before it is needed: most tests draw nothing

    made = Renderers()
    yield made
    made.close()
