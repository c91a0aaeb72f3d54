"""The onboard client as a wheel of its own.

What is in it, and that it receives without anything else of ours.
"""

from __future__ import annotations

import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import numpy as np
import pytest

from tests.support.common import PATIENCE_S, ROOT
from tests.support.one_file import check_python_3_8
from tests.support.programs import Program, output
from tests.support.stream_rig import StreamRig

pytestmark = pytest.mark.process

CLIENT = ROOT / "deploy" / "client"
_READER = """
import sys
sys.modules.update(dict.fromkeys(("vil_bridge", "vil_adapters",
    "vil_renderer", "vil_simulation")))  # importing them fails
from vil_bridge_client import Receiver
from vil_bridge_client.client_warp import ImuRing
with Receiver(sys.argv[1], color="rgb", encoding="raw", imu=ImuRing()) as receiver:
    print(next(iter(receiver)).image.shape)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    output(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=CLIENT)
    (built,) = folder.iterdir()
    return built


def test_the_wheel_fits_every_python_and_holds_the_files_that_vehicles_copy(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        code = {name: archive.read(name) for name in archive.namelist() if name.endswith(".py")}
        (metadata,) = (
            archive.read(name).decode() for name in archive.namelist() if name.endswith("METADATA")
        )
    sources = {"client.py": ROOT / "vil_bridge", "client_warp.py": ROOT / "vil_bridge"}
    sources["__init__.py"] = CLIENT / "vil_bridge_client"
    assert code == {
        f"vil_bridge_client/{name}": (folder / name).read_bytes()
        for name, folder in sources.items()
    }
    check_python_3_8(CLIENT / "vil_bridge_client" / "__init__.py")
    said = Parser().parsestr(metadata)
    assert said["Requires-Python"] == ">=3.8"
    assert {need for need in said.get_all("Requires-Dist", []) if "extra" not in need} == {
        "numpy",
        "pyzmq",
    }


def test_the_wheel_alone_receives_pictures(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    with StreamRig() as rig, rig.playing(np.zeros((48, 64, 3), np.uint8), 0.02):
        reader = (sys.executable, "-c", _READER, rig.endpoint)
        with Program(*reader, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}) as program:
            program.await_text(r"\(48, 64, 3\)")
            assert program.wait(PATIENCE_S) == 0
