"""The pages about simulated vehicles are true: their Python is run, block after block."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support.common import ROOT

ELSEWHERE = ("environment",)  # run by tests that also look at what comes out
PAGES = [*sorted((ROOT / "docs" / "reference" / "vehicles").glob("*.md")), ROOT / "docs" / "guides" / "learning.md"]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page) and page.stem not in ELSEWHERE], ids=lambda page: page.stem
)
def test_the_pages_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": page.stem}
    for number, code in enumerate(blocks(page), start=1):
        exec(compile(code, f"{page.name}, block {number}", "exec"), namespace)


def test_a_vehicle_takes_forty_lines() -> None:
    code = blocks(ROOT / "docs" / "reference" / "vehicles" / "your_own_vehicle.md")[0]
    ast.parse(code)
    assert len([line for line in code.splitlines() if line.strip()]) <= 40
