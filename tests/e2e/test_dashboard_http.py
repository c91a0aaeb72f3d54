"""REST, health, metrics and the status page over a real server on a free port."""

from __future__ import annotations

import dataclasses
import socket
import threading
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.sample_snapshot import NOW_NS, sample_snapshot
from tests.support.web_server import web_server
from vil_bridge.config.simulation import SimulationConfig
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import Lighting
from vil_bridge.daemon.simulation_clock import SimulationClock
from vil_bridge.monitoring.prometheus import metrics_registry
from vil_bridge.monitoring.snapshot import BridgeSnapshot
from vil_bridge.web import uvicorn_internals
from vil_bridge.web.app import create_app
from vil_bridge.web.schemas.status import BridgeStatus
from vil_bridge.web.server import HttpServer, bind_http

pytestmark = pytest.mark.wire


REAL = SimulationClock(SimulationConfig())
JPEG = b"\xff\xd8\xff\xe0 a picture \xff\xd9"


class Bridge:
    """Holds the snapshot that the server shows."""

    def __init__(self) -> None:
        self.lighting: Lighting | None = None
        self.now = sample_snapshot()
        self.broken = False

    def snapshot(self) -> BridgeSnapshot:
        if self.broken:
            raise RuntimeError("a bug")
        return self.now

    def preview(self, camera: str) -> bytes | None:
        return JPEG if camera == "front" else None


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Bridge, str]]:
    bridge = Bridge()
    app = create_app(
        bridge.snapshot,
        metrics_registry(bridge.snapshot),
        preview=bridge.preview,
        light=bridge,
        clock=REAL,
    )
    with web_server(app) as server:
        yield bridge, server.url


@pytest.fixture
def bridge(served: tuple[Bridge, str]) -> Bridge:
    served[0].now = sample_snapshot()
    return served[0]


@pytest.fixture
def web(served: tuple[Bridge, str]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served[1], timeout=60.0) as client:
        yield client


def test_status_is_the_whole_bridge(bridge: Bridge, web: httpx.Client) -> None:
    body = web.get("/api/v1/status").raise_for_status().json()
    assert set(body) == {field.name for field in dataclasses.fields(BridgeStatus)}
    source = body["sources"]["motive-flight"]
    assert source["report"]["state"] == "running"
    assert source["report"]["counters"]["lost"] == 7
    assert source["clock"] == {
        "method": "two-way",
        "offset_ns": -123456789012,
        "uncertainty_ns": 21000,
        "drift_ppm": 17.3,
        "samples": 240,
    }
    assert body["actors"]["gate"] == {
        "kind": "prop",
        "source": "motive-flight",
        "subject": "gate",
        "state": "lost",
        "age_s": None,
        "p_world_m": None,
        "q_xyzw": None,
        "speed_mps": None,
        "seen": {"lost": 1},
        "problem": "",
        "imu": None,
        "position_std_m": None,
        "attitude_std_rad": None,
    }


@pytest.mark.parametrize("section", ["sources", "actors", "renderers", "cameras", "streams"])
def test_sections_are_parts_of_the_status(section: str, bridge: Bridge, web: httpx.Client) -> None:
    whole = web.get("/api/v1/status").json()[section]
    assert whole and web.get(f"/api/v1/{section}").raise_for_status().json() == whole
    for name, member in whole.items():
        assert web.get(f"/api/v1/{section}/{name}").raise_for_status().json() == member


def test_latency_by_camera_and_stage(bridge: Bridge, web: httpx.Client) -> None:
    stages = web.get("/api/v1/latency").raise_for_status().json()["front"]
    assert list(stages)[:2] == ["capture_to_arrival", "arrival_to_request"]
    assert stages["request_to_image"]["last_10_s"] == {
        "count": 3,
        "p50_ms": 21.0,
        "p95_ms": 33.0,
        "p99_ms": 33.0,
        "max_ms": 33.0,
    }
    assert web.get("/api/v1/latency/front").json() == stages


def test_an_unknown_name_is_answered_with_the_known_ones(bridge: Bridge, web: httpx.Client) -> None:
    answer = web.get("/api/v1/sources/motive")
    assert answer.status_code == 404
    assert answer.json() == {
        "detail": "nothing named 'motive' in sources; known: imu, motive-actor, motive-flight"
    }


def test_facts_of_any_kind_are_shown(bridge: Bridge, web: httpx.Client) -> None:
    imu = bridge.now.sources["imu"]
    facts = {
        "samples": np.int64(3),
        "ratio": np.float32(0.5),
        "bad": float("nan"),
        "other": object,
        "list": ("a", 1),
    }
    report = dataclasses.replace(imu.report, facts=facts)
    bridge.now = dataclasses.replace(
        bridge.now, sources={"imu": dataclasses.replace(imu, report=report)}
    )
    shown = web.get("/api/v1/sources/imu").raise_for_status().json()["report"]["facts"]
    assert shown == {
        "samples": 3,
        "ratio": 0.5,
        "bad": None,
        "other": str(object),
        "list": ["a", 1],
    }


def test_health_is_of_the_process_and_readiness_of_the_pipeline(
    bridge: Bridge, web: httpx.Client
) -> None:
    assert web.get("/healthz").json() == {"status": "ok"}
    waiting = web.get("/readyz")
    assert waiting.status_code == 503
    assert waiting.json() == {
        "ready": False,
        "not_ready_because": ["imu: /dev/ttyACM0 does not exist; is the cable in?"],
        "degraded_because": [],
    }
    slow = "camera front: 31.0 of 60 pictures a second. Use a faster CPU"
    bridge.now = BridgeStatus(NOW_NS, "b", "0.1.0", 1.0, ready=True, degraded_because=(slow,))
    degraded = web.get("/readyz")
    assert (degraded.status_code, degraded.json()["ready"]) == (200, True)
    assert degraded.json()["degraded_because"] == [slow]
    bridge.now = BridgeStatus(NOW_NS, "b", "0.1.0", 1.0, ready=True)
    ready = web.get("/readyz")
    assert (ready.status_code, ready.json()) == (
        200,
        {"ready": True, "not_ready_because": [], "degraded_because": []},
    )


def test_metrics_are_what_prometheus_reads(bridge: Bridge, web: httpx.Client) -> None:
    answer = web.get("/metrics").raise_for_status()
    assert answer.headers["content-type"].startswith("text/plain; version=")
    names = {family.name for family in text_string_to_metric_families(answer.text)}
    assert {"vil_source_frames", "vil_stage_latency_seconds", "vil_build_info"} <= names
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    assert (
        web.get("/metrics", headers=accept)
        .headers["content-type"]
        .startswith("application/openmetrics-text")
    )


def test_previews(bridge: Bridge, web: httpx.Client) -> None:
    picture = web.get("/api/v1/cameras/front/preview.jpg")
    assert (picture.status_code, picture.headers["content-type"], picture.content) == (
        200,
        "image/jpeg",
        JPEG,
    )
    assert web.get("/api/v1/cameras/observer/preview.jpg").json() == {
        "detail": "camera 'observer' has no picture yet"
    }
    assert "known: front, observer" in web.get("/api/v1/cameras/rear/preview.jpg").json()["detail"]


def test_all_but_light_and_simulated_time_is_read_only(bridge: Bridge, web: httpx.Client) -> None:
    paths = web.get("/api/v1/openapi.json").raise_for_status().json()["paths"]
    assert {"/api/v1/status", "/api/v1/cameras/{name}", "/healthz", "/readyz", "/metrics"} <= set(
        paths
    )
    assert set(paths.pop("/api/v1/lighting")) == {"get", "put", "patch"}
    assert set(paths.pop("/api/v1/simulation")) == {"get", "patch"}
    assert set(paths.pop("/api/v1/simulation/step")) == {"post"}
    assert set(paths.pop("/api/v1/login-links")) == {"post"}
    assert {method for path in paths.values() for method in path} == {"get"}
    assert web.post("/api/v1/status", content=b"{}").status_code == 405


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "localhost:8080"}, 200),
        ({"Host": "127.0.0.1"}, 200),
        ({"Host": "[::1]:8080"}, 200),
        ({"Host": "10.0.0.5:8080"}, 200),
        ({"Host": "attacker.example"}, 403),
        ({"Host": "127.0.0.1.attacker.example"}, 403),
        ({"Host": "[::1"}, 403),
        ({"Host": "localhost:8080", "Origin": "http://localhost:8080"}, 200),
        ({"Host": "localhost:8080", "Origin": "http://localhost:9090"}, 403),
        ({"Host": "localhost:8080", "Origin": "https://attacker.example"}, 403),
        ({"Host": "localhost:8080", "Origin": "null"}, 403),
        ({"Host": "localhost:8080", "Origin": "http://["}, 403),
    ],
)
def test_foreign_names_and_pages_are_refused(
    headers: dict[str, str], status: int, bridge: Bridge, web: httpx.Client
) -> None:
    answer = web.get("/api/v1/status", headers=headers)
    assert answer.status_code == status
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\xff" * 4000,
        b"GET / HTTP/1.1\r\nHost: " + b"a" * 100_000,
        b"GET /%ff%fe\x80 HTTP/9\r\n\r\n",
    ],
)
def test_garbage_is_answered_or_dropped_and_the_server_goes_on(
    garbage: bytes, bridge: Bridge, web: httpx.Client
) -> None:
    with socket.create_connection((web.base_url.host, web.base_url.port or 0), timeout=60.0) as raw:
        try:
            raw.sendall(garbage)
            while raw.recv(4096):
                pass
        except ConnectionError:
            pass
    assert web.get("/healthz").status_code == 200


def test_an_error_in_one_answer_does_not_end_the_server(bridge: Bridge, web: httpx.Client) -> None:
    bridge.broken = True
    try:
        # Each on its own connection, since the server closes the one that failed.
        codes = [
            web.get(path, headers={"Connection": "close"}).status_code
            for path in ("/api/v1/status", "/metrics", "/healthz")
        ]
    finally:
        bridge.broken = False
    assert codes == [500, 500, 200]
    assert web.get("/api/v1/status").status_code == 200


def make_server() -> HttpServer:
    app = create_app(
        sample_snapshot,
        metrics_registry(sample_snapshot),
        preview=lambda _: None,
        light=Bridge(),
        clock=REAL,
    )
    return HttpServer(lambda: app, bind_http("127.0.0.1", 0))


def test_stop_ends_quickly_with_connections_open_and_frees_the_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What an idle connection has otherwise.
    monkeypatch.setattr(uvicorn_internals, "_REQUEST_TIMEOUT_S", 1000.0)
    server = make_server()
    threads = set(threading.enumerate())
    server.start()
    host, port = httpx.URL(server.url).host, httpx.URL(server.url).port or 0
    with (
        httpx.Client(base_url=server.url, timeout=60.0) as idle,
        socket.create_connection((host, port)) as half,
    ):
        assert idle.get("/healthz").status_code == 200
        half.sendall(b"GET /api/v1/status HTTP/1.1\r\nHost: loc")
        server.stop()
        server.stop()
    assert set(threading.enumerate()) <= threads
    bind_http(host, port).close()


def test_a_server_that_never_started_can_be_stopped() -> None:
    server = make_server()
    server.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url)


def test_a_port_in_use_says_so() -> None:
    with bind_http("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            ConfigError, match=rf"http: cannot listen on port {port}: .*is another bridge running"
        ):
            bind_http("127.0.0.1", port)
