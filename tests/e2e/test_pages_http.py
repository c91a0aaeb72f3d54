"""The pages as they are served, and as they are packed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from tests.support.common import ROOT
from tests.support.packages import PRODUCT
from tests.support.web_server import web_server
from vil_bridge.web.auth.access import Access
from vil_bridge.web.auth.middleware import SecurityMiddleware
from vil_bridge.web.pages import DASHBOARD, PLAIN, add_pages

pytestmark = pytest.mark.wire


WEB = ROOT / "vil_bridge" / "web" / "frontend"
ADDRESS = re.compile(r"https?://(?!www\.w3\.org/)")


@pytest.fixture(params=[PLAIN, DASHBOARD], ids=["plain", "dashboard"])
def web(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    folder: Traversable = request.param
    if not (folder / "index.html").is_file():
        pytest.skip("the dashboard is not built: make web")
    app = FastAPI(openapi_url=None)
    add_pages(app, folder)
    app.add_middleware(SecurityMiddleware, access=Access())
    with web_server(app) as server, httpx.Client(base_url=server.url, timeout=60.0) as client:
        yield client


def test_a_page_and_all_it_loads_come_from_the_host(web: httpx.Client) -> None:
    page = web.get("/").raise_for_status()
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'self';")
    linked = set(re.findall(r'(?:src|href)="([^"#]+)"', page.text))
    # Works behind a proxy's prefix.
    assert all(not url.startswith(("http", "/", "data:")) for url in linked), linked
    loaded = {url for url in linked if re.search(r"\.(js|css|svg|txt)$", url)}
    assert len(loaded) >= 2
    text = page.text + "".join(web.get(f"/{url}").raise_for_status().text for url in loaded)
    assert not ADDRESS.findall(text)
    # What the policy would block.
    assert not re.search(r'<script(?![^>]*src=)|style="|\son\w+="', page.text)


@pytest.mark.skipif(
    not (DASHBOARD / "index.html").is_file(), reason="the dashboard is not built: make web"
)
def test_the_dashboard_has_a_place_for_each_section_and_for_its_absence() -> None:
    page = (DASHBOARD / "index.html").read_text()
    assert 'src="app.js"' in page
    for shown in ("sources", "actors", "renderers", "cameras", "streams", "latency"):
        assert f'id="{shown}"' in page
        assert f'id="{shown}-empty"' in page


def test_the_plain_page_runs_no_script_and_says_how_to_get_the_other() -> None:
    page = (PLAIN / "index.html").read_text()
    assert "<code>make web</code>" in page and 'href="api/v1/status"' in page
    assert "<script" not in page and "<iframe" not in page
    assert {file.name for file in PLAIN.iterdir()} == {"index.html", "style.css", "icon.svg"}


def test_the_packages_of_the_page_are_pinned_and_their_lock_names_no_address() -> None:
    text = (WEB / "package-lock.json").read_text()
    assert "resolved" not in text and not ADDRESS.findall(text)
    assert (WEB / ".npmrc").read_text() == "omit-lockfile-registry-resolved=true\n"
    packages = json.loads(text)["packages"]
    assert all("integrity" in entry for name, entry in packages.items() if name)
    wanted = json.loads((WEB / "package.json").read_text())
    for name, version in {**wanted["dependencies"], **wanted["devDependencies"]}.items():
        assert packages[f"node_modules/{name}"]["version"] == version


def checkout(folder: Path) -> Path:
    """As much of the repository as a package of the dashboard needs."""
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
        shutil.copy2(ROOT / name, folder / name)
    for package in PRODUCT:
        (folder / package).mkdir(parents=True)
        shutil.copy2(ROOT / package / "__init__.py", folder / package)
    ours = ROOT / "vil_bridge" / "web"
    for part in ("fallback_page", "frontend"):
        shutil.copytree(
            ours / part, folder / "vil_bridge" / "web" / part, ignore=lambda *_: ["node_modules"]
        )
    return folder


def wheel(folder: Path) -> tuple[set[str], str]:
    """Files of the dashboard in a wheel that is built without Node, and what was said meanwhile."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel"],
        cwd=folder,
        env={**os.environ, "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    (path,) = (folder / "dist").glob("*.whl")
    prefix = "vil_bridge/web/"
    names = zipfile.ZipFile(path).namelist()
    return {
        name.removeprefix(prefix) for name in names if name.startswith(prefix)
    }, done.stdout + done.stderr


@pytest.mark.process
def test_without_node_a_wheel_has_the_plain_page_and_says_so(tmp_path: Path) -> None:
    files, said = wheel(checkout(tmp_path))
    assert "fallback_page/index.html" in files
    assert not any(file.startswith(("static/", "frontend/")) for file in files)
    assert "npm is absent" in said


@pytest.mark.process
def test_a_dashboard_that_is_built_already_goes_into_the_wheel_without_node(tmp_path: Path) -> None:
    static = checkout(tmp_path) / "vil_bridge" / "web" / "static"
    static.mkdir()
    (static / "index.html").write_text("built")
    files, said = wheel(tmp_path)
    assert "static/index.html" in files and not any(file.startswith("frontend/") for file in files)
    assert "npm is absent" not in said
