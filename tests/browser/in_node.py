"""Pieces of the page outside a browser: TypeScript in, JSON out."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

from tests.browser.rig import WEB

_LIMIT_S: Final = 120.0


@cache
def _bundle() -> TemporaryDirectory[str]:
    """Bundle every module of the page for Node, and three, once per run."""
    folder = TemporaryDirectory()
    sources = (str(file) for file in (WEB / "src").rglob("*.ts") if not file.name.endswith(".d.ts"))
    form = (
        "--bundle",
        "--splitting",
        "--format=esm",
        "--platform=node",
        "--loader:.css=empty",
        "--log-level=error",
    )
    places = ("--outbase=src", "--out-extension:.js=.mjs", f"--outdir={folder.name}")
    esbuild = str(WEB / "node_modules" / ".bin" / "esbuild")
    subprocess.run(
        [esbuild, *sources, "three=three", *form, *places], check=True, cwd=WEB, timeout=_LIMIT_S
    )
    return folder


def in_node(script: str, given: object = None) -> Any:
    """Return a script's ``answer(given)``, or what its promise gives.

    It may import ``./feed.mjs`` and the like.
    """
    if not (shutil.which("node") and (WEB / "node_modules").exists()):
        pytest.skip("the page cannot be built: make web")
    show = "(value) => console.log(JSON.stringify(value))"
    done = subprocess.run(
        ["node", "--input-type=module", "-"],
        input=f"{script}\nPromise.resolve(answer({json.dumps(given)})).then({show});".encode(),
        capture_output=True,
        check=True,
        cwd=_bundle().name,
        timeout=_LIMIT_S,
    )
    return json.loads(done.stdout)
