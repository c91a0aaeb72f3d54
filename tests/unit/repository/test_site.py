"""The documentation as a site.

Every page is in it, every link leads somewhere, nothing comes from elsewhere.
"""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.common import ROOT
from tests.support.programs import output, run

pytest.importorskip("mkdocs")


@pytest.mark.process
@pytest.mark.long
def test_the_site_is_built_whole_and_from_the_host_alone(tmp_path: Path) -> None:
    command = (
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--quiet",
        "--strict",
        "--site-dir",
        tmp_path,
    )
    built = run(*command, limit_s=110, env={"NO_MKDOCS_2_WARNING": "1"})
    assert built.returncode == 0, built.stderr
    pages = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*.html")}
    assert {
        "index.html",
        "start/tour.html",
        "reference/configuration_keys.html",
        "reference/rest_operations.html",
    } <= pages.keys()
    for name, text in pages.items():
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?([^\"' >]+)", text)
        loaded += re.findall(r"<link[^>]*\shref=[\"']?([^\"' >]+)", text)
        assert [url for url in loaded if "//" in url] == [], name
    keys = pages["reference/configuration_keys.html"]
    assert "<code>cameras.NAME.rate_hz</code>" in keys
    assert "vil_stage_latency_seconds" in pages["reference/metrics.html"]
    assert "vil-bridge lab" in pages["reference/commands.html"]


def test_the_tour_names_what_it_expects() -> None:
    """Steps that are left running, or fail on purpose, say so: the script relies on it."""
    tour = runpy.run_path(str(ROOT / "scripts" / "tour.py"))
    steps = [
        tour["step_of"](match)
        for match in tour["_BLOCK"].finditer((ROOT / "docs" / "start" / "tour.md").read_text())
    ]
    assert len(steps) > 10
    assert {step.exit_code for step in steps} == {0, 2}
    assert sum(bool(step.until) for step in steps) == 4


@pytest.mark.process
def test_pages_are_run_and_their_outputs_put_in(tmp_path: Path) -> None:
    page = (
        "# P\n\n<!-- until: ready -->\n```sh\necho ready; sleep 60\n```\n"
        "\n```sh\necho $((6 * 7))\n```\n\n```text\nold\n```\n"
        "\n<!-- exit: 3 -->\n```sh\necho why; exit 3\n```\n\ntext\n"
    )
    (tmp_path / "page.md").write_text(page)
    script = [sys.executable, str(ROOT / "scripts" / "tour.py"), "page.md"]
    output(*script, cwd=tmp_path)
    told = (tmp_path / "page.md").read_text()
    assert "echo $((6 * 7))\n```\n\n```text\n42\n```\n" in told
    assert "exit 3\n```\n\n```text\nwhy\n```\n" in told
    assert "old" not in told
    assert told.endswith("text\n")
    (tmp_path / "page.md").write_text("```sh\nfalse\n```\n")
    failed = run(*script, cwd=tmp_path)
    assert failed.returncode == 1
    assert "got exit code 1" in failed.stderr


def test_every_page_is_reached_from_the_navigation() -> None:
    listed = re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text())
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    decisions = {name for name in pages if name.startswith("decisions/")}
    assert pages - decisions - set(listed) == set()
    assert yaml.safe_load((ROOT / "mkdocs.yml").read_text())["theme"]["font"] is False
