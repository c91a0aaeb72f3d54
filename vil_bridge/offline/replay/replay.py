"""A recording through the bridge's own world, scheduler and relays as fast as it goes, to the bit
the same each time.

Bridge time is bound to the recorded events (:mod:`vil_bridge.offline.playback`). Every image
takes a fixed time, because the render time of one machine is not a property of the recording.
Images may differ in their last bits between OpenGL drivers, never between runs on one.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import median_low
from typing import Any, Final

from vil_bridge import __version__
from vil_bridge.assembly.world import build_world
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, machine_ns, now_ns
from vil_bridge.core.errors import RecordingError
from vil_bridge.core.types import SourceFrame
from vil_bridge.monitoring.frame_records import CameraHead, FrameRow
from vil_bridge.offline.files import folder_digest, write_sums, write_whole
from vil_bridge.offline.playback import Timeline, arrivals, config_of
from vil_bridge.offline.replay.maps import MapWriter
from vil_bridge.offline.replay.rendering import Rendering, chosen_cameras
from vil_bridge.offline.replay.writers import PictureWriter, TrackWriter, write_ledger
from vil_bridge.pipeline.camera import BridgeCamera
from vil_bridge.pipeline.camera_relay import FanOut
from vil_bridge.recording.ledger import ledger_values
from vil_bridge.recording.reader import Recording
from vil_bridge.registry import offline_renderer
from vil_bridge.runtime.output_folder import new_folder
from vil_bridge.world.world import World

_FIRST_GUESS_NS: Final = 27 * NS_PER_MS
"""From a request to the warp of its picture, as the pipeline guesses before it has measured."""
_LOOK_NS: Final = 10 * NS_PER_MS
_ROWS: Final = 100_000
_REPORT_EVERY: Final = 500


@dataclass(frozen=True, slots=True)
class ReplaySummary:
    """Result of a replay.

    Attributes:
        events: that went into the world.
        recorded_s, took_s: length of the recording, and of the replay by the clock.
        delay_ms: from a request to the warp of its picture.
        pictures: written, by camera. dropped: what became none, by camera and reason.
        sha256: of ``SHA256SUMS``, and so of all files.
    """

    events: int
    recorded_s: float
    took_s: float
    delay_ms: float
    pictures: dict[str, int]
    dropped: dict[str, dict[str, int]]
    sha256: str

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


def replay_offline(
    file: Path,
    out: Path,
    *,
    scene: str | None = None,
    cameras: Sequence[str] | None = None,
    rate_hz: float | None = None,
    delay_ms: float | None = None,
    on_progress: Callable[[float], None] = lambda _share: None,
) -> ReplaySummary:
    """Run a recording through the pipeline and write everything that comes out.

    Once at a time in a process.

    Args:
        file: the recording.
        out: new folder: the configuration, ``trajectories/ACTOR.txt`` (TUM), ``states.csv``,
            ``cameras/NAME`` with pictures and their headers, ``maps/NAME.ot``, ``ledger.jsonl``,
            ``replay.json``, ``SHA256SUMS``.
        scene: of the embedded renderer, name or file; None = no pictures.
        cameras: those that look; None = all.
        rate_hz: of pictures at most; None = as configured.
        delay_ms: from a request to the warp of its picture; None = the recorded frames' median, or
            27 ms.
        on_progress: called with the share of the recording that is done, 0 to 1.

    Raises:
        RecordingError: the file is none, or holds no event.
        ConfigError: ``out`` is not empty, or the configuration is not usable here.
        RendererError: this machine cannot draw the scene.
        OSError: the disk is full.
    """
    started_ns = machine_ns()
    with Recording(file) as recording, new_folder(out, "a replay"):
        config = config_of(recording)
        write_whole(out / "config.yaml", recording.config_text.encode())
        if delay_ms is None:
            delay_ns = _recorded_delay_ns(recording)
        else:
            delay_ns = round(delay_ms * NS_PER_MS)
        chosen = [] if scene is None else chosen_cameras(config, cameras, rate_hz, delay_ns)
        played = _play(recording, config, out, scene, chosen, delay_ns, on_progress)
        _describe(recording, out, scene, delay_ns, played)
    return ReplaySummary(
        played.events,
        played.recorded_ns / NS_PER_S,
        (machine_ns() - started_ns) / NS_PER_S,
        delay_ns / NS_PER_MS,
        played.pictures,
        played.dropped,
        folder_digest(out),
    )


@dataclass(frozen=True, slots=True)
class _Played:
    """Result of the events; world = samples that it dropped, by reason."""

    events: int
    recorded_ns: int
    pictures: dict[str, int]
    dropped: dict[str, dict[str, int]]
    world: dict[str, int]


def _describe(
    recording: Recording, out: Path, scene: str | None, delay_ns: int, played: _Played
) -> None:
    """Write ``replay.json`` and the sums of all files."""
    about = {
        "version": __version__,
        "recorded_by": recording.version,
        "truncated": recording.truncated,
        "scene": scene,
        "delay_ms": delay_ns / NS_PER_MS,
        **asdict(played),
    }
    write_whole(out / "replay.json", json.dumps(about, indent=2).encode() + b"\n")
    write_sums(out)


def _play(
    recording: Recording,
    config: BridgeConfig,
    out: Path,
    scene: str | None,
    cameras: Sequence[BridgeCamera],
    delay_ns: int,
    on_progress: Callable[[float], None],
) -> _Played:
    world = build_world(config)
    timeline = Timeline()
    writers: dict[str, PictureWriter] = {}
    rendering = None
    maps = MapWriter(config, cameras)
    with contextlib.ExitStack() as stack:
        stack.enter_context(timeline.running())
        tracks = stack.enter_context(TrackWriter(out, world))
        if scene is not None and cameras:
            renderer = stack.enter_context(contextlib.closing(offline_renderer(scene)))
            for camera in cameras:
                writers[camera.name] = stack.enter_context(
                    contextlib.closing(PictureWriter(out / "cameras" / camera.name, camera))
                )
            sinks = {name: FanOut((writer, *maps.sinks[name])) for name, writer in writers.items()}
            rendering = Rendering(world, cameras, renderer.render, delay_ns, sinks, timeline)
            stack.callback(rendering.close)
        events, recorded_ns = _ingest(recording, world, timeline, tracks, rendering, on_progress)
        end_ns = now_ns()
    maps.write(out)
    pictures = {name: writer.written for name, writer in writers.items()}
    dropped = {} if rendering is None else rendering.dropped()
    heads = [
        CameraHead(
            config.name,
            __version__,
            c.name,
            end_ns,
            recording.utc_offset_ns,
            c.rate_hz,
            dropped[c.name],
            {},
        )
        for c in cameras
    ]
    write_ledger(out / "ledger.jsonl", [(head, writers[head.camera]) for head in heads])
    return _Played(events, recorded_ns, pictures, dropped, world.counters())


def _ingest(
    recording: Recording,
    world: World,
    timeline: Timeline,
    tracks: TrackWriter,
    rendering: Rendering | None,
    on_progress: Callable[[float], None],
) -> tuple[int, int]:
    """Take all events in.

    Returns how many there were, and the time between the first and the last.
    """
    number = 0
    first_ns = 0
    t_ns = 0
    whole_ns = max(1.0, recording.duration_s * NS_PER_S)
    for number, (t_ns, event) in enumerate(arrivals(recording), 1):
        if number == 1:
            first_ns = t_ns
            timeline.every(_LOOK_NS, t_ns, lambda _due_ns: tracks.check())
            if rendering is not None:
                rendering.start(t_ns)
        timeline.reach(t_ns)
        world.ingest(event)
        if isinstance(event, SourceFrame):
            tracks.tracked(event.source)
        if number % _REPORT_EVERY == 0:
            on_progress(min(1.0, (t_ns - first_ns) / whole_ns))
    if not number:
        raise RecordingError(
            f"{recording.path} holds no event of a source: nothing can be replayed"
        )
    timeline.end()
    on_progress(1.0)
    return number, t_ns - first_ns


def _recorded_delay_ns(recording: Recording) -> int:
    """Return the median time from a request to its picture's warp, of at most 100,000 recorded
    frames.
    """
    values = islice(ledger_values(recording), _ROWS)
    stamps = [value.stamps for _, value in values if isinstance(value, FrameRow)]
    delays_ns = [s.warp - s.request for s in stamps if s.warp is not None and s.request is not None]
    return median_low(delays_ns) if delays_ns else _FIRST_GUESS_NS
