"""The documentation as a site: every page is in it, every link leads somewhere, nothing comes from elsewhere."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support import ROOT

pytest.importorskip("mkdocs")


def test_the_site_is_built_whole_and_from_the_host_alone(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    pages = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*.html")}
    assert {"index.html", "tour.html", "reference/configuration.html", "reference/rest.html"} <= pages.keys()
    for name, text in pages.items():
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?([^\"' >]+)", text)
        loaded += re.findall(r"<link[^>]*\shref=[\"']?([^\"' >]+)", text)
        assert [url for url in loaded if "//" in url] == [], name
    keys = pages["reference/configuration.html"]
    assert "<code>cameras.NAME.rate_hz</code>" in keys
    assert "vil_stage_latency_seconds" in pages["reference/metrics.html"]
    assert "vil-bridge lab" in pages["reference/commands.html"]


def test_the_tour_names_what_it_expects() -> None:
    """Steps that are left running, or fail on purpose, say so: the script relies on it."""
    tour = runpy.run_path(str(ROOT / "scripts" / "tour.py"))
    steps = [tour["step_of"](match) for match in tour["_BLOCK"].finditer((ROOT / "docs" / "tour.md").read_text())]
    assert len(steps) > 10
    assert {step.exit_code for step in steps} == {0, 2}
    assert sum(bool(step.until) for step in steps) == 4


def test_pages_are_run_and_their_outputs_put_in(tmp_path: Path) -> None:
    page = (
        "# P\n\n<!-- until: ready -->\n```sh\necho ready; sleep 60\n```\n"
        "\n```sh\necho $((6 * 7))\n```\n\n```text\nold\n```\n"
        "\n<!-- exit: 3 -->\n```sh\necho why; exit 3\n```\n\ntext\n"
    )
    (tmp_path / "page.md").write_text(page)
    script = [sys.executable, str(ROOT / "scripts" / "tour.py"), "page.md"]
    subprocess.run(script, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    told = (tmp_path / "page.md").read_text()
    assert "echo $((6 * 7))\n```\n\n```text\n42\n```\n" in told
    assert "exit 3\n```\n\n```text\nwhy\n```\n" in told
    assert "old" not in told
    assert told.endswith("text\n")
    (tmp_path / "page.md").write_text("```sh\nfalse\n```\n")
    failed = subprocess.run(script, cwd=tmp_path, check=False, capture_output=True, timeout=60)
    assert failed.returncode == 1
    assert b"got exit code 1" in failed.stderr


def test_every_page_is_reached_from_the_navigation() -> None:
    listed = re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text())
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    decisions = {name for name in pages if name.startswith("decisions/")}
    assert pages - decisions - set(listed) == set()
    assert yaml.safe_load((ROOT / "mkdocs.yml").read_text())["theme"]["font"] is False
