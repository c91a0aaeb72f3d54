"""Client of a bridge's REST interface: each operation is a method."""

from __future__ import annotations

import ssl
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from vil_bridge.core.errors import ProtocolError
from vil_bridge.interfaces.services import service_views
from vil_bridge.interfaces.vehicle_commands import VehicleState
from vil_bridge.monitoring.camera_history import CameraHistory
from vil_bridge.monitoring.event_log import EventLevel, EventView
from vil_bridge.monitoring.frame_records import CameraLedger, read_ledger
from vil_bridge.monitoring.snapshot import (
    ActorView,
    CameraView,
    OutputView,
    RendererView,
    SimulationView,
    SourceView,
    StageView,
    StreamView,
)
from vil_bridge.web.client.connection import HttpConnection, line_of, path_of, unexpected, value_of
from vil_bridge.web.client.live import LiveReader
from vil_bridge.web.client.planning_api import PlanningApi
from vil_bridge.web.schemas.controls import FaultsOut, MountView, PropBody, PropView, ReloadView
from vil_bridge.web.schemas.lighting import LampsView, LightingBody, LightingPatch
from vil_bridge.web.schemas.live import PreviewRequest
from vil_bridge.web.schemas.login import LinkOut, WhoOut
from vil_bridge.web.schemas.race import CourseOut, RaceResultOut, RaceSetupBody
from vil_bridge.web.schemas.recordings import RecordingView, ReplayView, StoredView
from vil_bridge.web.schemas.scene import SceneView
from vil_bridge.web.schemas.status import BridgeStatus, HealthOut, ReadyOut
from vil_bridge.web.schemas.vehicles import CommandBody, DisturbanceBody, VehicleSensorsOut

_REPORT_TIMEOUT_S: Final = 620.0
_EVENTS: Final[dict[str, TypeAdapter[Any]]] = {
    "status": TypeAdapter(BridgeStatus),
    "log": TypeAdapter(EventView),
    "recording": TypeAdapter(RecordingView),
}


class BridgeApi(PlanningApi):
    """Client of one bridge.

    Args:
        url: of the status page.
        token: of ``http.token_file``; None = the bridge asks for none.
        ca_file: certificate that vouches for the bridge's; None = those of the system.
        timeout_s: for the next bytes of an answer.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        ca_file: Path | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        tls = ssl.create_default_context(cafile=ca_file) if url.startswith("https:") else None
        self._bridge = HttpConnection(url, token, tls, timeout_s)

    # --- state ----------------------------------------------------------------------------------

    def get_status(self) -> BridgeStatus:
        """Return the status of the whole bridge."""
        return self._bridge.get(BridgeStatus, path_of("status"))

    def get_sources(self) -> dict[str, SourceView]:
        """Return the sources by name."""
        return self._bridge.get(dict[str, SourceView], path_of("sources"))

    def get_sources_by_name(self, name: str) -> SourceView:
        """Return one source."""
        return self._bridge.get(SourceView, path_of("sources", name))

    def get_actors(self) -> dict[str, ActorView]:
        """Return the actors by name."""
        return self._bridge.get(dict[str, ActorView], path_of("actors"))

    def get_actors_by_name(self, name: str) -> ActorView:
        """Return one actor."""
        return self._bridge.get(ActorView, path_of("actors", name))

    def get_renderers(self) -> dict[str, RendererView]:
        """Return the renderers by name."""
        return self._bridge.get(dict[str, RendererView], path_of("renderers"))

    def get_renderers_by_name(self, name: str) -> RendererView:
        """Return one renderer."""
        return self._bridge.get(RendererView, path_of("renderers", name))

    def get_cameras(self) -> dict[str, CameraView]:
        """Return the cameras by name."""
        return self._bridge.get(dict[str, CameraView], path_of("cameras"))

    def get_cameras_by_name(self, name: str) -> CameraView:
        """Return one camera."""
        return self._bridge.get(CameraView, path_of("cameras", name))

    def get_preview(self, name: str) -> bytes:
        """Return a camera's newest picture as JPEG."""
        return self._bridge.ask("GET", path_of("cameras", name, "preview.jpg"))

    def get_streams(self) -> dict[str, StreamView]:
        """Return the streams by camera."""
        return self._bridge.get(dict[str, StreamView], path_of("streams"))

    def get_streams_by_name(self, name: str) -> StreamView:
        """Return one stream."""
        return self._bridge.get(StreamView, path_of("streams", name))

    def get_outputs(self) -> dict[str, OutputView]:
        """Return the outputs by name."""
        return self._bridge.get(dict[str, OutputView], path_of("outputs"))

    def get_outputs_by_name(self, name: str) -> OutputView:
        """Return one output."""
        return self._bridge.get(OutputView, path_of("outputs", name))

    def get_latency(self) -> dict[str, dict[str, StageView]]:
        """Return the latencies by camera and stage."""
        return self._bridge.get(dict[str, dict[str, StageView]], path_of("latency"))

    def get_latency_by_name(self, name: str) -> dict[str, StageView]:
        """Return the latencies of one camera by stage."""
        return self._bridge.get(dict[str, StageView], path_of("latency", name))

    def get_history(self) -> dict[str, CameraHistory]:
        """Return the last ten minutes of every camera."""
        return self._bridge.get(dict[str, CameraHistory], path_of("history"))

    def get_history_by_name(self, name: str) -> CameraHistory:
        """Return the last ten minutes of one camera."""
        return self._bridge.get(CameraHistory, path_of("history", name))

    def get_ledger(self, camera: str, last: int = 10_000) -> CameraLedger:
        """Return a camera's newest frames, each with its stamps."""
        text = self._bridge.ask("GET", path_of("ledger", camera), last=last)
        try:
            (ledger,) = read_ledger(text.splitlines())
        except (ProtocolError, ValueError):
            raise unexpected(text) from None
        return ledger

    def get_scene(self) -> SceneView:
        """Return the scene: rooms, actors, cameras, gates, obstacles."""
        return self._bridge.get(SceneView, path_of("scene"))

    def get_scene_model(self) -> bytes:
        """Return the geometry that the renderer draws, as binary glTF."""
        return self._bridge.ask("GET", path_of("scene", "model.glb"))

    def get_log(self, after: int = 0, level: EventLevel = EventLevel.INFO) -> list[EventView]:
        """Return the latest log entries, oldest first."""
        return self._bridge.get(list[EventView], path_of("log"), after=after, level=str(level))

    def get_updates(self) -> Generator[BridgeStatus | EventView | RecordingView, None, None]:
        """Yield events without end.

        The status twice a second, log entries and the recording on change.
        """
        with self._bridge.open("GET", path_of("updates")) as answer:
            event = ""
            while line := line_of(answer):
                field, _, value = line.decode(errors="replace").rstrip("\n").partition(": ")
                if field == "event":
                    event = value
                elif field == "data" and event in _EVENTS:
                    yield _event(event, value)

    def live(self, poses_hz: float = 0.0, previews: Sequence[PreviewRequest] = ()) -> LiveReader:
        """Return a reader of poses and camera previews.

        Raises:
            RestError: the bridge refuses.
        """
        bridge = self._bridge
        url = "ws" + bridge.url.removeprefix("http") + path_of("live")
        reader = LiveReader(url, bridge.headers, bridge.tls, bridge.timeout_s)
        try:
            reader.subscribe(poses_hz, previews)
        except BaseException:
            reader.close()
            raise
        return reader

    # --- health and access ----------------------------------------------------------------------

    def get_health(self) -> HealthOut:
        """Return "ok" from a live process."""
        return self._bridge.get(HealthOut, "healthz")

    def get_ready(self) -> ReadyOut:
        """Return the readiness of the pipeline, with the reasons if it is not ready."""
        with self._bridge.open("GET", "readyz", also=503) as answer:
            return value_of(ReadyOut, answer)

    def get_metrics(self) -> str:
        """Return Prometheus metrics."""
        return self._bridge.ask("GET", "metrics").decode(errors="replace")

    def get_whoami(self) -> WhoOut:
        """Return the role of this client."""
        return self._bridge.get(WhoOut, path_of("whoami"))

    def make_login_link(self, role: str = "view") -> LinkOut:
        """Create a link that logs one browser in, once."""
        return self._bridge.put(LinkOut, path_of("login-links"), {"role": role}, "POST")

    # --- changes --------------------------------------------------------------------------------

    def get_lighting(self) -> LightingBody:
        """Return the difference of the light from the scene's default."""
        return self._bridge.get(LightingBody, path_of("lighting"))

    def put_lighting(self, lighting: LightingBody) -> LightingBody:
        """Set the light."""
        return self._bridge.put(LightingBody, path_of("lighting"), lighting)

    def patch_lighting(self, change: LightingPatch) -> LightingBody:
        """Change a part of the light."""
        return self._bridge.put(LightingBody, path_of("lighting"), change, "PATCH")

    def get_lamps(self) -> LampsView:
        """Return the lamps of the drawn scene."""
        return self._bridge.get(LampsView, path_of("lighting", "lamps"))

    def get_simulation(self) -> SimulationView:
        """Return the state of simulated time."""
        return self._bridge.get(SimulationView, path_of("simulation"))

    def patch_simulation(
        self, *, paused: bool | None = None, speed: float | None = None
    ) -> SimulationView:
        """Pause, resume, or change the speed; None = unchanged."""
        return self._bridge.put(
            SimulationView, path_of("simulation"), {"paused": paused, "speed": speed}, "PATCH"
        )

    def step_simulation(self, seconds: float) -> SimulationView:
        """Advance a paused world by a duration."""
        return self._bridge.put(
            SimulationView, path_of("simulation", "step"), {"seconds": seconds}, "POST"
        )

    def get_vehicles(self) -> list[str]:
        """Return the names of the simulated vehicles."""
        return self._bridge.get(list[str], path_of("vehicles"))

    def get_vehicle(self, name: str) -> VehicleState:
        """Return the state of one simulated vehicle."""
        return self._bridge.get(VehicleState, path_of("vehicles", name))

    def get_vehicle_sensors(self, name: str) -> VehicleSensorsOut:
        """Return the newest reading of each sensor of one simulated vehicle."""
        return self._bridge.get(VehicleSensorsOut, path_of("vehicles", name, "sensors"))

    def command_vehicle(self, name: str, command: CommandBody) -> VehicleState:
        """Command a simulated vehicle."""
        return self._bridge.put(VehicleState, path_of("vehicles", name, "command"), command, "POST")

    def disturb_vehicle(self, name: str, disturbance: DisturbanceBody) -> VehicleState:
        """Let wind, a force and broken rotors act on a simulated vehicle."""
        return self._bridge.put(
            VehicleState, path_of("vehicles", name, "disturbance"), disturbance, "PATCH"
        )

    def get_race(self) -> Any:
        """Return the race, as in the status; raises NoSuchThing where there is none."""
        return self._bridge.get(_race_view(), path_of("race"))

    def reset_race(self) -> Any:
        """Start the race again; return it."""
        return self._bridge.put(_race_view(), path_of("race", "reset"), None, "POST")

    def put_race(self, setup: RaceSetupBody) -> Any:
        """Set up a race of an arcade; return it."""
        return self._bridge.put(_race_view(), path_of("race"), setup)

    def get_race_courses(self) -> list[CourseOut]:
        """Return the courses of the arcade."""
        return self._bridge.get(list[CourseOut], path_of("race", "courses"))

    def get_race_results(self) -> list[RaceResultOut]:
        """Return the races that have ended, the oldest first."""
        return self._bridge.get(list[RaceResultOut], path_of("race", "results"))

    def get_race_lap(self, result: int, lap: int) -> bytes:
        """Return the flight of a lap as CSV; raises NoSuchThing where it is not stored."""
        return self._bridge.ask("GET", path_of("race", "results", str(result), "laps", str(lap)))

    def get_mount(self, name: str) -> MountView:
        """Return the pose of a camera in its carrier."""
        return self._bridge.get(MountView, path_of("cameras", name, "mount"))

    def put_mount(self, name: str, mount: MountView) -> MountView:
        """Move a camera."""
        body = {"p_m": mount.p_m, "q_xyzw": mount.q_xyzw}
        return self._bridge.put(MountView, path_of("cameras", name, "mount"), body)

    def get_faults(self, name: str) -> FaultsOut:
        """Return the faults injected into a source."""
        return self._bridge.get(FaultsOut, path_of("sources", name, "faults"))

    def put_faults(self, name: str, faults: str) -> FaultsOut:
        """Inject other faults into a source; empty = none."""
        return self._bridge.put(FaultsOut, path_of("sources", name, "faults"), {"faults": faults})

    def get_props(self) -> dict[str, PropView]:
        """Return the obstacles by name."""
        return self._bridge.get(dict[str, PropView], path_of("props"))

    def put_prop(self, name: str, prop: PropBody) -> PropView:
        """Add an obstacle to the world, or move it."""
        return self._bridge.put(PropView, path_of("props", name), prop)

    def delete_prop(self, name: str) -> None:
        """Remove an obstacle."""
        self._bridge.ask("DELETE", path_of("props", name))

    def get_config(self) -> dict[str, Any]:
        """Return the configuration in force."""
        return self._bridge.get(dict[str, Any], path_of("config"))

    def reload_config(self) -> ReloadView:
        """Let the bridge read its configuration again."""
        return self._bridge.put(ReloadView, path_of("config", "reload"), None, "POST")

    # --- recording ------------------------------------------------------------------------------

    def get_recording(self) -> RecordingView:
        """Return the state of the recording."""
        return self._bridge.get(RecordingView, path_of("recording"))

    def start_recording(self, name: str | None = None) -> RecordingView:
        """Start a recording; None = named after the time."""
        return self._bridge.put(RecordingView, path_of("recording"), {"name": name})

    def stop_recording(self) -> RecordingView:
        """End the recording and finish its file."""
        return self._bridge.put(RecordingView, path_of("recording"), None, "DELETE")

    def get_recordings(self) -> list[StoredView]:
        """Return the recordings of the bridge's folder, the newest first."""
        return self._bridge.get(list[StoredView], path_of("recordings"))

    def get_recording_file(self, name: str, into: Path) -> None:
        """Copy a recording from the bridge into a file."""
        self._bridge.save(path_of("recordings", name), into)

    def get_recording_report(self, name: str, into: Path) -> None:
        """Write the report of a recording, as HTML, into a file; an hour's takes minutes."""
        self._bridge.save(path_of("recordings", name, "report"), into, patience_s=_REPORT_TIMEOUT_S)

    def get_replay(self) -> ReplayView:
        """Return the state of the replay."""
        return self._bridge.get(ReplayView, path_of("replay"))

    def start_replay(self, name: str, *, rate: float = 1.0, loop: bool = False) -> ReplayView:
        """Replace live sources by the recorded ones."""
        return self._bridge.put(
            ReplayView, path_of("replay"), {"name": name, "rate": rate, "loop": loop}
        )

    def stop_replay(self) -> ReplayView:
        """Return to the live sources."""
        return self._bridge.put(ReplayView, path_of("replay"), None, "DELETE")


def _event(kind: str, text: str) -> Any:
    try:
        return _EVENTS[kind].validate_json(text)
    except ValidationError:
        raise unexpected(text.encode()) from None


def _race_view() -> type[Any]:
    """Return the type of a race in the status."""
    found: type[Any] = service_views()["race"].RaceView
    return found
