"""Runs pieces of the page outside a browser: TypeScript in, JSON out."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from tests.browser.rig import WEB

_LIMIT_S = 120.0


def in_node(script: str, given: object = None) -> Any:
    """The value of a script's ``answer(given)``, or of its promise; it may import from ``./feed`` and the like."""
    if not (shutil.which("node") and (WEB / "node_modules").exists()):
        pytest.skip("the page cannot be built: make web")
    esbuild = WEB / "node_modules" / ".bin" / "esbuild"
    tell = "(value) => console.log(JSON.stringify(value))"
    whole = f"{script}\nPromise.resolve(answer({json.dumps(given)})).then({tell});"
    bundle = subprocess.run(
        [esbuild, "--bundle", "--platform=node", "--loader=ts", "--log-level=error"],
        input=whole.encode(),
        capture_output=True,
        check=True,
        cwd=WEB / "src",
        timeout=_LIMIT_S,
    ).stdout
    done = subprocess.run(["node", "-"], input=bundle, capture_output=True, check=True, timeout=_LIMIT_S)
    return json.loads(done.stdout)
