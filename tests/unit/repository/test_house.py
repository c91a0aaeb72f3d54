"""The house rules that a tool can judge hold.

Class names, first words of docstrings, banned words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import house
from tests.support.common import ROOT

FILES = house.python_files()
ROOMS = sorted({"/".join(path.relative_to(ROOT).parts[:2]) for path in FILES})


def of_room(room: str) -> list[Path]:
    return [path for path in FILES if "/".join(path.relative_to(ROOT).parts[:2]) == room]


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("check", [house.openings, house.words])
def test_the_code_follows_the_house_rules(
    room: str, check: Callable[[Path], Iterator[str]]
) -> None:
    assert [line for path in of_room(room) for line in check(path)] == []


def test_pages_and_configurations_have_no_banned_word() -> None:
    assert [
        line for file in (*house.pages(), *house.configurations()) for line in house.words(file)
    ] == []


def test_the_examples_follow_the_house_rules() -> None:
    examples = sorted((ROOT / "examples").rglob("*.py"))
    assert [
        line for path in examples for check in (house.openings, house.words) for line in check(path)
    ] == []


def test_a_public_class_is_defined_once() -> None:
    assert house.duplicate_classes() == []


def test_violations_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house, "ROOT", tmp_path)
    path = tmp_path / "room.py"
    path.write_text('def tell_all() -> None:\n    """What is told."""\n')
    found = "\n".join(house.violations([path]))
    assert "begins with 'What'" in found
    assert "the name tell_all" in found and "'told'" in found
