"""The REST client and its schemas import without the server's packages."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.common import ROOT

pytestmark = pytest.mark.process

PRESENT = (
    "msgspec",
    "numpy",
    "pydantic",
    "pydantic_core",
    "annotated_types",
    "typing_extensions",
    "typing_inspection",
    "websockets",
)
ABSENT = (
    "fastapi",
    "starlette",
    "uvicorn",
    "h11",
    "cv2",
    "zmq",
    "scipy",
    "yaml",
    "prometheus_client",
    "typer",
)
CODE = f"""
import importlib.util, pkgutil
import vil_bridge.web.client
import vil_bridge.web.schemas
for module in pkgutil.iter_modules(vil_bridge.web.schemas.__path__):
    importlib.import_module("vil_bridge.web.schemas." + module.name)
assert not [name for name in {ABSENT!r} if importlib.util.find_spec(name)]
print(vil_bridge.web.client.BridgeApi("http://127.0.0.1:1/").get_status.__name__)
"""


def test_the_client_imports_in_a_bare_environment(tmp_path: Path) -> None:
    environment, packages = tmp_path / "environment", tmp_path / "packages"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    packages.mkdir()
    for name in PRESENT:
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None
        origin = Path(spec.origin)
        source = origin.parent if spec.submodule_search_locations else origin
        (packages / source.name).symlink_to(source)
        for beside in source.parent.glob(f"{name}.libs"):
            (packages / beside.name).symlink_to(beside)
    (packages / "vil_bridge").symlink_to(ROOT / "vil_bridge")
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "bare.pth").write_text(f"{packages}\n")
    done = subprocess.run(
        [environment / "bin" / "python", "-I", "-c", CODE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "get_status\n"
