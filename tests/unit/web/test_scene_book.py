"""The numbers of a scene's changes, by which pages know whether they have the right one."""

from __future__ import annotations

from dataclasses import replace

from vil_bridge.web.routes.scene import SceneRevisions
from vil_bridge.web.schemas.scene import SceneView


def test_the_number_rises_with_each_change_and_stays_without_one() -> None:
    scenes = [
        SceneView("lab"),
        SceneView("lab"),
        SceneView("lab", model="a"),
        SceneView("lab", model="b"),
    ]
    book = SceneRevisions(lambda: scenes.pop(0))
    first = book.current()
    assert [book.current() for _ in range(3)] == [
        first,
        replace(first, revision=first.revision + 1, model="a"),
        replace(first, revision=first.revision + 2, model="b"),
    ]


def test_a_bridge_that_starts_again_begins_with_another_number_that_fits_into_the_poses() -> None:
    firsts = {SceneRevisions(lambda: SceneView("lab")).current().revision for _ in range(100)}
    assert len(firsts) > 90
    assert max(firsts) < 1 << 31
