"""`vil-bridge bench start`: seconds from a command to what its user waits for.

Each figure is wall time of fresh processes that take turns, after a first round that fills the
caches of files, modules and kernels. A busy machine stretches all of them: ``interpreter_s`` says
how much.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from vil_benchmarks.report import Row
from vil_bridge.protocols.mavlink.framing import MavlinkParser
from vil_bridge.protocols.mavlink.messages import Odometry
from vil_simulation.demo.child_processes import ProcessGroup, free_ports

_LIMIT_S: Final = 300.0
"""The first round compiles the kernels of the vehicles, which takes a minute on a busy machine."""
_DEMO_S: Final = 5
_LAB_RUNS: Final = "running until"
_INTERPRETER: Final = "import numpy"
_GYMNASIUM: Final = """
import gymnasium
env = gymnasium.make("vil_simulation.learning:vil/Hover-v0")
env.reset(seed=1)
env.step(env.action_space.sample())
"""
_POSES_ONLY: Final = """
version: 1
require_cameras: false
rooms: {{lab: {{}}}}
sources: {{motive: {{type: optitrack, room: lab, command_port: {motive}}}}}
actors: {{drone: {{kind: vehicle, source: motive, subject: drone}}}}
outputs: {{autopilot: {{type: mavlink-pose, actors: [drone], port: 0, peer_port: {autopilot}}}}}
stream: {{bind: "tcp://127.0.0.1:{stream}"}}
http: {{port: {http}}}
"""


def bench_start(repetitions: int = 5, *, demo: bool = True) -> list[Row]:
    """Measure; about a minute and a half on a quiet machine.

    Args:
        repetitions: rounds behind each median, after the first.
        demo: measure the demo too, which takes most of the time.
    """
    with tempfile.TemporaryDirectory() as place, ProcessGroup(Path(place), _environment()) as lab:
        works: dict[str, Callable[[], float]] = {
            "interpreter_s": partial(_run_s, "-c", _INTERPRETER),
            "help_s": partial(_run_s, *ProcessGroup.program[1:], "--help"),
            "run_to_first_pose_s": partial(_first_pose_s, *_poses_only(Path(place), lab)),
        }
        if _installed("numba", "gymnasium"):
            works["gymnasium_make_and_step_s"] = partial(_run_s, "-c", _GYMNASIUM)
        if demo and _installed("moderngl", "cv2"):
            works["demo_to_first_picture_s"] = partial(_first_picture_s, Path(place))
        rounds = [_timed(works.values()) for _ in range(repetitions + 1)][1:]
    medians = np.median(rounds, axis=0).tolist()
    return [
        Row(name, median, "s", repetitions) for name, median in zip(works, medians, strict=True)
    ]


def _timed(works: Iterable[Callable[[], float]]) -> list[float]:
    return [work() for work in works]


def _installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in modules)


def _environment() -> dict[str, str]:
    """Return the environment, less what forbids Python to store compiled modules.

    An installation has them.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _run_s(*arguments: str) -> float:
    """Measure an interpreter from its start to its end."""
    command = [sys.executable, *arguments]
    environment = _environment()
    begun = time.perf_counter()
    subprocess.run(  # noqa: S603
        command,
        check=True,
        capture_output=True,
        timeout=_LIMIT_S,
        env=environment,
    )
    return time.perf_counter() - begun


def _poses_only(folder: Path, lab: ProcessGroup) -> tuple[Path, int]:
    """Emulate a Motive, and write the configuration of a bridge between it and an autopilot.

    Returns:
        The configuration and the UDP port of the autopilot.
    """
    command, data, autopilot = free_ports(3, socket.SOCK_DGRAM)
    stream, http = free_ports(2, socket.SOCK_STREAM)
    lab.start("lab", "lab", "--motive", f"127.0.0.1:{command},{data}", "--imu", str(folder / "imu"))
    log = folder / "lab.log"
    lab.wait("the lab", lambda: _LAB_RUNS in log.read_text() or None, ("lab",), lambda _: None)
    config = folder / "poses.yaml"
    config.write_text(
        _POSES_ONLY.format(motive=command, autopilot=autopilot, stream=stream, http=http)
    )
    return config, autopilot


def _first_pose_s(config: Path, autopilot: int) -> float:
    """Measure from the start of ``vil-bridge run`` to the first pose that an autopilot receives."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as received,
        ProcessGroup(config.parent, _environment()) as bridge,
    ):
        received.bind(("127.0.0.1", autopilot))
        received.settimeout(_LIMIT_S)
        parser = MavlinkParser()
        begun = time.perf_counter()
        bridge.start("run", "run", str(config))
        while not any(
            isinstance(message.body, Odometry) for message in parser.feed(received.recv(2048))
        ):
            pass
        return time.perf_counter() - begun


def _first_picture_s(folder: Path) -> float:
    """Measure from the start of ``vil-bridge demo`` to the first picture that its client
    receives.
    """
    summary = folder / "demo.json"
    words = (
        "demo",
        "--seconds",
        str(_DEMO_S),
        "--out",
        str(folder / "demo"),
        "--json",
        str(summary),
    )
    begun = time.perf_counter()
    with subprocess.Popen(  # noqa: S603 - our own program and arguments
        [*ProcessGroup.program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(),
    ) as demo:
        assert demo.stdout is not None
        demo.stdout.readline()  # printed when the programs of the demo have been started
        started_s = time.perf_counter() - begun
        demo.stdout.read()
    return started_s + float(json.loads(summary.read_text())["first_picture_s"])
