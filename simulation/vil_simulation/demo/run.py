"""`vil-bridge demo`: lab, renderer, bridge and onboard client on one machine, and what came of
it.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from vil_adapters.lab.motions import Scenario
from vil_bridge import registry
from vil_bridge.assembly.world import camera_info
from vil_bridge.config.load import load
from vil_bridge.config.presets import preset_text
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.ports import CameraInfo
from vil_simulation.demo.child_processes import ProcessGroup, free_ports
from vil_simulation.demo.collect import StreamReader
from vil_simulation.demo.evaluate import Delivered, Evaluation, Evaluator
from vil_simulation.demo.first import DemoOptions, DemoStart
from vil_simulation.demo.results import save_pictures, summarise, summary_lines

_START_S: Final = 5.0
_LAB_START_S: Final = 1.5
_EVALUATE_SHARE: Final = 0.25
_EVALUATE_LIMIT_S: Final = 7.0
_CLOSE_S: Final = 1.2
_FEWEST_PICTURES: Final = 8
_RETAINED_PICTURES: Final = 60


@dataclass(slots=True)
class _Run:
    """The parts of a demo under way."""

    options: DemoOptions
    begun: DemoStart
    config: BridgeConfig
    scenario: Scenario
    epoch_ns: int
    readers: dict[str, StreamReader]


def run_demo(
    options: DemoOptions, begun: DemoStart, processes: ProcessGroup, say: Callable[[str], None]
) -> bool:
    """Run the demo and write its pictures and its summary.

    Args:
        options: of the user.
        begun: what runs already.
        processes: holds the renderer, and gets the others; all are ended.
        say: gets lines for people.

    Returns:
        False when no picture came.

    Raises:
        VilBridgeError: one of the processes died, or the recording cannot be read.
    """
    stop = begun.stop
    evaluate_s = min(_EVALUATE_LIMIT_S, _EVALUATE_SHARE * options.seconds)
    flight_s = 0.0
    if options.seconds:
        flight_s = max(2.0, options.seconds - _START_S - evaluate_s - _CLOSE_S)
    run = _start(options, begun, flight_s, processes, say)
    if run is None or not _take_off(run, processes, stop, say):
        say(f"ended before the first picture (logs: {options.out}/)")
        return False
    begin_ns = max(now_ns(), run.epoch_ns)
    end_ns: int | None = None
    if flight_s:
        end_ns = begin_ns + round(flight_s * NS_PER_S)
    _fly(run, processes, stop, end_ns, say)
    status = processes.wait("the bridge's status", lambda: _status(begun.url), ("run",), say)
    landed_s = time.monotonic()
    for reader in run.readers.values():
        reader.stop()
    exit_codes = processes.stop()
    return _conclude(run, status, exit_codes, landed_s + evaluate_s, say)


def _start(
    options: DemoOptions,
    begun: DemoStart,
    flight_s: float,
    processes: ProcessGroup,
    say: Callable[[str], None],
) -> _Run | None:
    """Start the bridge, then the lab; None if stopped before."""
    udp = free_ports(4, socket.SOCK_DGRAM)
    source: list[str] = []
    works = _answers
    if options.recording:
        scenario = Scenario.recorded(options.recording, flight_s)
        source = ["--recording", str(options.recording), "--seconds", str(flight_s)]
        # A recording shall be seen whole; a simulated drone may be under way when the renderer has
        # loaded.
        works = _renderer_works
    else:
        scenario = Scenario.simulated()
    overrides = {
        "sources.motive_flight.command_port": udp[0],
        "sources.motive_actor.command_port": udp[2],
        "sources.imu.device": str(options.out / "imu"),
        "renderers.hall.pose_port": begun.pose,
        "renderers.hall.image_port": begun.image,
        "stream.bind": f"tcp://127.0.0.1:{begun.stream}",
        "http.port": begun.http,
        "rooms.flight.T_world_room": json.dumps(scenario.flight_room.model_dump()),
        "rooms.actor.T_world_room": json.dumps(scenario.actor_room.model_dump()),
    }
    preset = options.out / "demo.yaml"
    preset.write_text(preset_text("demo"))
    sets = [f"{key}={value}" for key, value in overrides.items()]
    config = load(preset, sets=sets, env={}, resolve=registry.resolve)
    lab = ["--flight-ports", f"{udp[0]},{udp[1]}", "--actor-ports", f"{udp[2]},{udp[3]}"]
    recorded = [] if options.record is None else ["--record", str(options.record)]
    processes.start(
        "run", "run", str(preset), *recorded, *(word for item in sets for word in ("--set", item))
    )
    ready = lambda: begun.stop.is_set() or works(_status(begun.url)) or None  # noqa: E731
    processes.wait("bridge and renderer", ready, ("run", "renderer"), say, revivable=("renderer",))
    if begun.stop.is_set():
        return None
    # The lab starts faster than they did.
    lab_ns = 0
    if options.recording:
        lab_ns = (now_ns() - begun.spawned_ns) // 2
    epoch_ns = now_ns() + max(round(_LAB_START_S * NS_PER_S), lab_ns)
    processes.start(
        "lab", "lab", *lab, "--imu", str(options.out / "imu"), "--epoch-ns", str(epoch_ns), *source
    )
    readers = _readers(config.stream.bind, max(0.2, flight_s / _RETAINED_PICTURES))
    return _Run(options, begun, config, scenario, epoch_ns, readers)


def _take_off(
    run: _Run, processes: ProcessGroup, stop: threading.Event, say: Callable[[str], None]
) -> bool:
    """Wait for the first picture; False if stopped before."""
    main = run.readers["compensated"]
    look = lambda: stop.is_set() or main.first_ns is not None or None  # noqa: E731
    processes.wait(
        "the first picture", look, ("lab", "run", "renderer"), say, revivable=("lab", "renderer")
    )
    return main.first_ns is not None


def _readers(endpoint: str, retain_every_s: float) -> dict[str, StreamReader]:
    """Return the onboard computer's streams, started."""
    readers = {
        "compensated": StreamReader(endpoint, "front", retain_every_s=retain_every_s),
        "raw": StreamReader(endpoint, "plain", variant="raw", retain_every_s=retain_every_s),
        "depth": StreamReader(endpoint, "plain", variant="raw", modality="depth"),
        "observer": StreamReader(endpoint, "observer", variant="raw", color="rgb"),
    }
    for reader in readers.values():
        reader.start()
    return readers


def _fly(
    run: _Run,
    processes: ProcessGroup,
    stop: threading.Event,
    land_ns: int | None,
    say: Callable[[str], None],
) -> None:
    """Wait for the end; once a second one line says how it goes."""
    main = run.readers["compensated"]
    last = 0
    while not stop.wait(1.0):
        for name in processes.check(revivable=("lab", "renderer")):
            say(f"{name} was killed: started again")
        if land_ns is not None and now_ns() >= land_ns:
            return
        waited_s = (now_ns() - run.begun.spawned_ns) / NS_PER_S
        if (
            main.frames > last
            and main.newest is not None
            and main.newest[0]["tracking"] == "tracked"
        ):
            run.readers["observer"].retain_best()  # both actors are in sight
        say(_progress(main, last, waited_s, run.scenario.phase(max(0, now_ns() - run.epoch_ns))))
        last = main.frames


def _progress(main: StreamReader, last: int, waited_s: float, phase: str) -> str:
    if main.newest is None:
        return f"{waited_s:5.1f} s  waiting for the first picture"
    header = main.newest[0]
    stamps = header["stamps_ns"]
    way_ms = (stamps["send"] - stamps["request"]) / 1e6
    warp = header["compensation"]
    shown = f"  recording: {phase}" if phase else ""
    return (
        f"{waited_s:5.1f} s  {main.frames - last:3d} pictures/s  request to send {way_ms:5.1f} ms  "
        f"warp {warp.get('method')} {1e3 * warp.get('angle_rad', 0.0):5.1f} mrad  drone "
        f"{header['tracking']}{shown}"
    )


def _status(url: str) -> dict[str, Any] | None:
    """Return the bridge's status; None while it does not answer."""
    try:
        # Our own loopback server.
        with urllib.request.urlopen(url + "api/v1/status", timeout=5) as answer:  # noqa: S310
            status: dict[str, Any] = json.load(answer)
            return status
    except (OSError, http.client.HTTPException, ValueError):
        return None


def _answers(status: dict[str, Any] | None) -> bool:
    return status is not None


def _renderer_works(status: dict[str, Any] | None) -> bool:
    return status is not None and status["renderers"]["hall"]["report"]["state"] == "running"


def _conclude(
    run: _Run,
    status: dict[str, Any],
    exit_codes: dict[str, int],
    until_s: float,
    say: Callable[[str], None],
) -> bool:
    cameras = {name: camera_info(name, run.config.cameras[name]) for name in ("front", "plain")}
    evaluator = Evaluator(run.scenario, run.epoch_ns)
    try:
        compared = _compare(run, evaluator, cameras, until_s)
        save_pictures(run.options.out, run.readers, evaluator, cameras["front"])
    finally:
        evaluator.close()
    summary = summarise(
        run.readers, status, compared, run.begun.spawned_ns, _untracked_s(run), exit_codes
    )
    run.options.json_path.parent.mkdir(parents=True, exist_ok=True)
    run.options.json_path.write_text(json.dumps(summary, indent=2) + "\n")
    for line in summary_lines(summary):
        say(line)
    say(f"summary {run.options.json_path}, pictures {run.options.out}/*.png")
    return run.readers["compensated"].frames > 0


def _untracked_s(run: _Run) -> float:
    """Return for how long tracking was lost on purpose between the first and the newest
    compensated picture.
    """
    main = run.readers["compensated"]
    if main.first_ns is None or main.last_ns is None:
        return 0.0
    return run.scenario.untracked_s(main.first_ns - run.epoch_ns, main.last_ns - run.epoch_ns)


def _compare(
    run: _Run, evaluator: Evaluator, cameras: dict[str, CameraInfo], until_s: float
) -> dict[str, Evaluation]:
    """Evaluate pictures of both streams in turn, spread over the motion, until the time is up.

    A vehicle at rest needs no compensation: its pictures would only say how long it rested.
    """
    errors: dict[str, list[FloatArray]] = {"compensated": [], "raw": []}
    names = {"compensated": "front", "raw": "plain"}
    queues = {kind: _spread(_moving(run, run.readers[kind].retained)) for kind in errors}
    for pair in zip(*queues.values(), strict=False):
        if time.monotonic() >= until_s and len(errors["raw"]) >= _FEWEST_PICTURES:
            break
        for kind, picture in zip(errors, pair, strict=True):
            error_px = evaluator.error_px(cameras[names[kind]], picture)
            if error_px is not None:
                errors[kind].append(error_px)
    return {kind: Evaluation.of(found) for kind, found in errors.items()}


def _moving(run: _Run, pictures: list[Delivered]) -> list[Delivered]:
    return [
        picture
        for picture in pictures
        if run.scenario.phase(picture.t_use_ns - run.epoch_ns) != "rest"
    ]


def _spread(pictures: list[Delivered]) -> list[Delivered]:
    """Order coarse to fine: wherever the list is cut, its beginning covers the whole flight."""
    order = sorted(range(len(pictures)), key=lambda i: int(f"{i:012b}"[::-1], 2))
    return [pictures[i] for i in order]
