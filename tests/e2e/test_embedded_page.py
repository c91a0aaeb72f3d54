"""docs/guides/embedded_renderer.md and renderer/README.md: every code block of them is run."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.common import ROOT, needs_gl
from tests.support.programs import Program, output
from vil_bridge import registry
from vil_bridge.config.load import load
from vil_renderer.embedded.engine.profiles import PROFILES

pytestmark = [pytest.mark.process, pytest.mark.gl]

PAGES = ("docs/guides/embedded_renderer.md", "renderer/README.md")
LOAD_S = 300.0


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and text of each block."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        (kind, body)
        for kind, body in re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    ]


@pytest.fixture(autouse=True)
def _opengl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_gl()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LP_NUM_THREADS", "1")


def test_the_pages_have_no_other_kinds_of_blocks() -> None:
    for page in PAGES:
        assert {kind for kind, _ in blocks(page)} <= {"python", "sh", "yaml"}, page
    assert len([kind for kind, _ in blocks(PAGES[0]) if kind == "python"]) >= 6


@pytest.mark.long
def test_the_python_of_the_page_runs_in_order() -> None:
    names: dict[str, Any] = {}
    for kind, body in blocks(PAGES[0]):
        if kind == "python":
            exec(compile(body, PAGES[0], "exec"), names)
    assert names["renderer"].info["scene"] == "hall"
    assert len(names["points"]) > 1000 and 1.0 < names["ahead_m"] < 12.0
    assert names["below_m"] == pytest.approx(1.5, abs=1e-3)
    assert len(names["beacons"]) >= 4 and len(names["events"].t_ns) > 1000
    assert Path("hall.ply").read_bytes().startswith(b"ply\nformat binary_little_endian 1.0\n")
    assert names["picture"].pixels.std() > 10.0


@pytest.mark.parametrize("page", PAGES)
def test_the_configurations_are_good(page: str, tmp_path: Path) -> None:
    for i, (kind, body) in enumerate(blocks(page)):
        if kind == "yaml":
            parts = yaml.safe_load(body)
            carriers = (
                {c["actor"] for c in parts["cameras"].values()} - {"world"}
                if "version" not in parts
                else ()
            )
            if carriers:  # an excerpt: who carries its cameras is told elsewhere
                parts |= {
                    "version": 1,
                    "rooms": {"hall": {}},
                    "sources": {"mocap": {"type": "optitrack", "room": "hall"}},
                    "actors": {
                        c: {"kind": "vehicle", "source": "mocap", "subject": c} for c in carriers
                    },
                }
            path = tmp_path / f"{i}.yaml"
            path.write_text(yaml.safe_dump(parts))
            assert load(path, env={}, resolve=registry.resolve).every_camera()


def commands() -> list[str]:
    return [
        line
        for page in PAGES
        for kind, body in blocks(page)
        if kind == "sh"
        for line in body.splitlines()
    ]


@pytest.mark.long
@pytest.mark.parametrize("line", commands())
def test_the_commands_work(line: str, tmp_path: Path) -> None:
    program, *words = shlex.split(line)
    module = {"vil-bridge": ["-m", "vil_bridge"], "python": []}[program]
    command = [
        sys.executable,
        *module,
        *(str(ROOT / w) if w.startswith("examples/") else w for w in words),
    ]
    if words[0] != "renderer":
        output(*command, limit_s=LOAD_S, cwd=tmp_path)
        return
    command += ["--input-port", "1", "--output-port", "2"]  # where nobody listens
    with Program(*command, cwd=tmp_path) as child:
        child.await_text("drawing", LOAD_S)
        assert child.end() == 0


def test_the_page_lists_every_profile() -> None:
    text = (ROOT / PAGES[0]).read_text(encoding="utf-8")
    assert [name for name in PROFILES if f"| `{name}` |" in text] == list(PROFILES)
