"""The default installation.

An interpreter that can import nothing of the extras relays poses, and names extras.
"""

from __future__ import annotations

import json
import socket
import sys
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from tests.support.common import ROOT
from tests.support.mavlink_out import UdpAutopilot
from tests.support.optitrack import SpinMotion, emulated
from tests.support.programs import Program, run
from vil_bridge.runtime.exit_codes import Exit
from vil_simulation.demo.child_processes import free_ports

pytestmark = pytest.mark.process

EXTRAS: Final = (
    "cv2",
    "scipy",
    "numba",
    "moderngl",
    "glcontext",
    "trimesh",
    "PIL",
    "av",
    "gymnasium",
    "zenoh",
    "lcm",
)
"""Modules that the default installation lacks."""
_WITHOUT: Final = f"""
import sys
sys.modules |= dict.fromkeys({EXTRAS})  # an import of these raises ModuleNotFoundError
from vil_bridge.cli.main import main
main()
"""
_IMPORTED: Final = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
from vil_bridge.cli.main import main
main()
"""
_BUILT: Final = """
import json, sys
from vil_bridge import registry
from vil_bridge.config.load import load_text
from vil_bridge.daemon.bridge import Bridge
text = "version: 1\\nhttp: {port: 0}\\nstream: {bind: 'tcp://127.0.0.1:0'}\\n"
bridge = Bridge(load_text(text, "here", resolve=registry.resolve))
bridge.http.stop()
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
_DEFAULT: Final = (sys.executable, "-c", _WITHOUT)
_POSES: Final = """
version: 1
require_cameras: false
rooms: {{lab: {{}}}}
sources: {{motive: {{type: optitrack, room: lab, command_port: {motive}}}}}
actors: {{drone: {{kind: vehicle, source: motive, subject: drone}}}}
outputs: {{autopilot: {{type: mavlink-pose, actors: [drone], rate_hz: 100, port: 0,
    peer_port: {autopilot}}}}}
stream: {{bind: "tcp://127.0.0.1:{stream}"}}
http: {{port: {http}}}
"""


def test_help_imports_nothing_that_takes_long() -> None:
    done = run(sys.executable, "-c", _IMPORTED, "--help")
    assert done.returncode == Exit.OK, done.stderr
    assert "Validate a configuration, and that what it needs is installed" in " ".join(
        done.stdout.split()
    )
    imported = set(json.loads(done.stderr))
    slow = {"numpy", "zmq", "yaml", "pydantic", "fastapi", "mcap", "rich", *EXTRAS}
    assert imported & slow == set()
    assert "vil_bridge.cli.run" in imported


def test_a_bridge_that_is_built_has_imported_nothing_that_only_http_needs() -> None:
    done = run(sys.executable, "-c", _BUILT)
    assert done.returncode == 0, done.stderr
    imported = set(json.loads(done.stdout))
    assert "zmq" in imported
    assert imported & {"fastapi", "starlette", "uvicorn", "h11", "prometheus_client"} == set()


async def test_poses_go_from_mocap_to_autopilot_without_any_extra(tmp_path: Path) -> None:
    stream, http = free_ports(2, socket.SOCK_STREAM)
    async with emulated(SpinMotion()) as motive:
        with UdpAutopilot() as autopilot:
            config = tmp_path / "poses.yaml"
            config.write_text(
                _POSES.format(
                    motive=motive.command_port, autopilot=autopilot.port, stream=stream, http=http
                )
            )
            with Program(*_DEFAULT, "run", config) as bridge:
                await bridge.until(lambda: len(autopilot.of("ODOMETRY")) >= 20, "twenty poses")
                assert bridge.end() == Exit.OK, bridge.text()
        poses = autopilot.of("ODOMETRY")
    x_m, y_m, z_m = np.array([(p.x, -p.y, -p.z) for p in poses]).T  # forward, right, down
    np.testing.assert_allclose(np.hypot(x_m, y_m), 1.0, atol=0.02)
    np.testing.assert_allclose(z_m, 1.0, atol=0.02)
    assert len(set(zip(x_m, y_m, strict=True))) == len(poses), "the body moves on its circle"
    assert all(b.time_usec > a.time_usec for a, b in pairwise(poses))


@pytest.mark.parametrize("verb", ["check", "run"])
def test_a_camera_names_the_extra_that_it_needs(verb: str) -> None:
    done = run(*_DEFAULT, verb, ROOT / "configs" / "lab_optitrack.yaml")
    assert done.returncode == Exit.CONFIG, done.stdout + done.stderr
    assert "cameras: the Python module 'cv2' is not installed: pip install '.[warp]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("align", "drone", ROOT / "configs" / "lab_optitrack.yaml"), "align"),
        (("calibrate", "drone", ROOT / "configs" / "two_rooms.yaml"), "align"),
        (("demo",), "demo"),
        (("renderer",), "gl"),
        (("bench", "stream"), "warp"),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) else value,
)
def test_a_verb_names_the_extra_that_it_needs(words: tuple[object, ...], extra: str) -> None:
    done = run(*_DEFAULT, *words)
    assert done.returncode == Exit.CONFIG, done.stdout + done.stderr
    assert f"pip install '.[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr
