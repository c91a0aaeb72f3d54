"""Random programs against AirSim's server.

``python -m tests.soak.airsim --seconds 3600 --out out/soak/airsim``.

Eight programs (:mod:`tests.soak.airsim_client`) call every served method of a server of drones and
of one of cars, with right and with wrong arguments. Programs are killed at random, and garbage
arrives at both ports. Exit code 0 = every call was answered as the model says, both servers live,
count the garbage, and do not grow; 1 = said on stderr.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import random
import re
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx

from tests.soak.airsim_arguments import LENS_CAMERA, LENSES
from tests.soak.airsim_calls import OBJECTS, CallModel
from tests.soak.airsim_client import CONNECTED, AirsimPeer
from tests.soak.airsim_garbage import GarbageThrower
from tests.soak.growth import LEAST_SAMPLES, SLACK, Sample, growth, sampled
from tests.support.common import wait_until
from tests.support.programs import VIL_BRIDGE, Program

LARGEST_MB: Final = 10.0
"""Growth of a process in the last two thirds of an hour."""
_CLIENTS: Final = {"multirotor": 6, "car": 2}
_START_S: Final = 300.0
_TURN_S: Final = 0.25
_CLOSED_S: Final = 180.0
"""Longest time that a call of a killed program runs on, on a busy computer."""
_ROUNDS: Final = 5
"""Of all methods, before programs start."""
_MOST_OBJECTS: Final = 10
_SENSORS: Final = {
    "Distance": {"SensorType": 5, "Enabled": True},
    "Lidar": {"SensorType": 6, "Enabled": True},
} | {
    name: {"SensorType": number, "Enabled": True}
    for name, number in (("B", 1), ("I", 2), ("G", 3), ("M", 4))
}
_CAPTURES: Final = [{"ImageType": kind, "Width": 64, "Height": 36} for kind in range(0, 10, 2)]
_COMMON: Final[dict[str, Any]] = {
    "SettingsVersion": 1.2,
    "DefaultSensors": _SENSORS,
    "CameraDefaults": {"CaptureSettings": _CAPTURES},
}
_SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "multirotor": {
        "SimMode": "Multirotor",
        "Vehicles": {f"Drone{n}": {"VehicleType": "SimpleFlight", "X": 4 * n} for n in range(3)},
    },
    "car": {"SimMode": "Car"},
}
_SCENES: Final = {"multirotor": "blocks", "car": "empty"}
_PROCESSES: Final = {
    "vil_bridge airsim": "bridge",
    "source.worker": "simulation",
    "servers.queries": "scene",
}


class SoakedServer:
    """A server, its programs, and what becomes of both.

    Attributes:
        samples: of each process of the server, by its name. problems: what went wrong.
    """

    def __init__(
        self, kind: str, folder: Path, rng: random.Random, stack: contextlib.ExitStack
    ) -> None:
        self.kind = kind
        self.samples: dict[str, list[Sample]] = {}
        self.problems: list[str] = []
        self.kills = 0
        self._folder = folder / kind
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        self._random = rng
        self._stack = stack
        settings = self._folder / "settings.json"
        recording = {"Folder": str(self._folder / "recordings"), "RecordInterval": 1.0}
        settings.write_text(json.dumps(_COMMON | _SETTINGS[kind] | {"Recording": recording}))
        words = ("airsim", settings, "--port", 0, "--scene", _SCENES[kind])
        self._program = stack.enter_context(
            Program(*VIL_BRIDGE, *words, log=self._folder / "server.log")
        )
        self._port = int(
            self._program.await_text(r"connect to 127\.0\.0\.1 port (\d+)", _START_S)[1]
        )
        status = re.search(r"status page (http\S+)", self._program.text())
        assert status is not None
        self._status_url = f"{status[1]}api/v1/status"
        self._pids = {name: pid for pid, name in _processes(self._program.pid)}
        self._peer = AirsimPeer(self._port)
        self._garbage = GarbageThrower(self._port, rng)
        self._warm_up()
        self._before = self._opened()
        self._clients = [self._client() for _ in range(_CLIENTS[kind])]
        for client in self._clients:
            client.await_text(CONNECTED, _START_S)

    def turn(self, t_s: float) -> None:
        """Let paused worlds go on, kill a program now and then, throw garbage, and sample
        memory.
        """
        assert self._peer.ask("ping") is True
        self._peer.ask("simPause", False)
        self._garbage.throw()
        if self._random.random() < 0.1:
            self._kill_one()
        if self._random.random() < 0.1:
            self._remove_objects()
        for name, pid in self._pids.items():
            found = sampled(pid, t_s)
            if found is None:
                raise AssertionError(
                    f"{self.kind}: the process {name} ended: {self._program.text()[-1500:]}"
                )
            self.samples.setdefault(name, []).append(found)

    def judged(self, largest_mb: float) -> dict[str, Any]:
        """End the programs and the server; return the summary, and collect the problems."""
        for client in self._clients:
            if client.poll() is not None:
                self.problems.append(f"a program ended by itself: {client.text()[-1500:]}")
            client.kill()
        self._judge_opened()
        faults = httpx.get(self._status_url, timeout=_START_S).json()["faults"]["airsim"]
        grown = {
            name: growth(f"{self.kind} {name}", found)
            for name, found in self.samples.items()
            if len(found) >= LEAST_SAMPLES  # fewer: it ended early, which is a problem of its own
        }
        self.problems += [
            problem
            for found in grown.values()
            for problem in found.problems(largest_mb, ("threads",))
        ]
        code = self._program.end()
        self.problems += [f"the server ended with {code}"] if code else []
        self.problems += self._logged()
        if faults["malformed"] != self._garbage.malformed:
            self.problems.append(f"{self._garbage.malformed} times garbage, counted {faults}")
        calls, errors = self._counted()
        return {
            "calls": sum(calls.values()),
            "errors": sum(errors.values()),
            "least_called": sorted(calls.items(), key=lambda item: item[1])[:3],
            "methods": len(calls),
            "kills": self.kills,
            "garbage": dict(self._garbage.thrown),
            "rss_mb": {name: [g.first["rss_mb"], g.last["rss_mb"]] for name, g in grown.items()},
        }

    def _warm_up(self) -> None:
        """Use every method and every model, so that what is loaded once is there before memory
        is judged.
        """
        assets = self._peer.ask("simListAssets")
        model = CallModel(
            self._random, self.kind, self._peer.ask("listVehicles"), assets, str(self._folder)
        )
        ahead, scale = {"position": {"x_val": 5.0}}, {"x_val": 1.0, "y_val": 1.0, "z_val": 1.0}
        for asset in assets:
            self._peer.ask("simSpawnObject", OBJECTS, asset, ahead, scale)
        for lens, vehicle, kind in itertools.product(LENSES, model.vehicles, range(10)):
            self._peer.ask("simSetDistortionParam", LENS_CAMERA, "K1", lens, vehicle)
            self._peer.ask("simGetImage", LENS_CAMERA, kind, vehicle)
        for _ in range(_ROUNDS):
            calls = [model.call(name, wrong=False) for name in model.methods]
            questions = [(call.name, call.arguments) for call in calls]
            answers = self._peer.answers([*questions, ("simPause", (False,))])
            found = (call.problem(*answer) for call, answer in zip(calls, answers, strict=False))
            self.problems += [
                f"{self.kind} at the start: {problem}" for problem in found if problem
            ]

    def _opened(self) -> dict[str, int]:
        """Return the descriptors, sockets among them, of each process of the server."""
        self._peer.ask("stopRecording")
        found = {name: sampled(pid, 0.0) for name, pid in self._pids.items()}
        return {name: sample.descriptors for name, sample in found.items() if sample is not None}

    def _judge_opened(self) -> None:
        """Wait until what the programs had opened is closed, and no call of theirs runs."""

        def left() -> str:
            grown = {
                name: count - self._before[name]
                for name, count in self._opened().items()
                if count > self._before[name] + SLACK
            }
            return f"{self.kind}: descriptors left open when the programs had ended: {grown}"

        try:
            self._peer.ask("simPause", False)
            wait_until(lambda: left().endswith("{}"), _CLOSED_S, left)
        except AssertionError as exc:
            self.problems.append(str(exc))

    def _client(self) -> Program:
        seed, log = self._random.randrange(1 << 30), self._folder / "clients.jsonl"
        words = (sys.executable, "-m", "tests.soak.airsim_client", self._port, seed, self.kind, log)
        return self._stack.enter_context(Program(*words))

    def _kill_one(self) -> None:
        """Kill a program in the middle of its calls, and start another.

        It has its connection before the server's sockets are counted again.
        """
        place = self._random.randrange(len(self._clients))
        if self._clients[place].poll() is not None:
            raise AssertionError(
                f"a program ended by itself: {self._clients[place].text()[-1500:]}"
            )
        self._clients[place].kill()
        self._clients[place] = self._client()
        self._clients[place].await_text(CONNECTED, _START_S)
        self.kills += 1

    def _remove_objects(self) -> None:
        """Remove what killed programs have left behind."""
        names = self._peer.ask("simListSceneObjects", f"{OBJECTS}.*")
        for name in names[_MOST_OBJECTS:]:
            self._peer.ask("simDestroyObject", name)

    def _logged(self) -> list[str]:
        """Return what the log must not hold."""
        text = self._program.text()
        lines = [
            line for line in text.splitlines() if " ERROR " in line and "program: " not in line
        ]
        found = [f"{self.kind}: logged {line:.300}" for line in lines[:10]]
        return found + ["a traceback in the log"] * ("Traceback" in text) + self._told()[:10]

    def _entries(self) -> Iterator[dict[str, Any]]:
        for line in (self._folder / "clients.jsonl").read_text().splitlines():
            yield json.loads(line)

    def _told(self) -> list[str]:
        return [
            f"{self.kind}: {entry['problem']}" for entry in self._entries() if "problem" in entry
        ]

    def _counted(self) -> tuple[Counter[str], Counter[str]]:
        calls, errors = Counter[str](), Counter[str]()
        for entry in self._entries():
            calls.update(entry.get("calls", {}))
            errors.update(entry.get("errors", {}))
        return calls, errors


def _processes(root: int) -> Iterator[tuple[int, str]]:
    """Yield the processes of a server, and what they are."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # ended meanwhile
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    for pid, parent in parents.items():
        if pid == root or parent == root:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")
            yield pid, next((name for part, name in _PROCESSES.items() if part in words), words)


def soak(folder: Path, seconds: float, seed: int, largest_mb: float) -> dict[str, Any]:
    """Run and judge; returns the summary with its ``problems``."""
    rng = random.Random(seed)
    with contextlib.ExitStack() as stack:
        servers = [SoakedServer(kind, folder, rng, stack) for kind in _SETTINGS]
        begun_s = time.monotonic()
        t_s = longest_s = 0.0
        try:
            for turn in itertools.count():
                t_s = time.monotonic() - begun_s
                if t_s >= seconds and turn >= LEAST_SAMPLES:
                    break
                for server in servers:
                    server.turn(t_s)
                longest_s = max(longest_s, time.monotonic() - begun_s - t_s)
                time.sleep(_TURN_S)
        except (AssertionError, OSError) as exc:
            servers[0].problems.append(f"after {t_s:.0f} s: {exc!r}")
            print(servers[0].problems[-1], file=sys.stderr, flush=True)
        summary = {server.kind: server.judged(largest_mb) for server in servers}
    problems = [problem for server in servers for problem in server.problems]
    return summary | {"longest_turn_s": round(longest_s, 2), "problems": problems}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument(
        "--out", type=Path, required=True, help="where logs, recordings and the summary stay"
    )
    parser.add_argument(
        "--largest-mb", type=float, default=LARGEST_MB, help="of a process's growth"
    )
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"{options.seconds:.0f} s, seed {seed}", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers end too
    # Names of files of programs are absolute, or relative to the folder of their server.
    summary = soak(options.out.resolve(), options.seconds, seed, options.largest_mb)
    (options.out / "summary.json").write_text(json.dumps(summary, indent=1))
    print(json.dumps({key: value for key, value in summary.items() if key != "problems"}))
    for problem in summary["problems"]:
        print(problem, file=sys.stderr)
    return 1 if summary["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
