"""Roles over every operation that the API describes and every WebSocket, on a running
bridge.

The matrix is made from the bridge's own description and routes: what is added later is covered too.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import re
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import httpx
import pytest
from fastapi.routing import APIWebSocketRoute
from starlette.routing import BaseRoute, Route
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.support.bridge_rig import build
from tests.support.common import wait_until
from tests.support.guarded_bridge import Guarded, guarded_bridge
from vil_bridge.cli.main import main
from vil_bridge.runtime.access_tokens import Role, new_token
from vil_bridge.web.auth.access import needed_role

pytestmark = pytest.mark.process


PATIENCE_S: Final = 180.0
METHODS: Final = {"get", "put", "post", "patch", "delete"}
OPEN_TO_ALL: Final = {"/healthz", "/readyz", "/api/v1/whoami"}
OTHERS: Final = itertools.count(2)
"""Last numbers of loopback addresses: whoever shows wrong tokens does it from one of his own."""


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_bridge(tmp_path_factory.mktemp("guarded")) as running:
        yield running


@pytest.fixture(scope="module")
def operations(bridge: Guarded) -> list[tuple[str, str]]:
    """Method and path of each, with a name in the place of each parameter."""
    answer = httpx.get(
        f"{bridge.url}/api/v1/openapi.json", headers=bridge.headers(Role.VIEW), timeout=PATIENCE_S
    )
    paths: dict[str, dict[str, Any]] = answer.raise_for_status().json()["paths"]
    found = [
        (m.upper(), re.sub(r"\{\w+\}", "nobody", p))
        for p, of in paths.items()
        for m in of
        if m in METHODS
    ]
    assert len(found) > 30 and len({method for method, _ in found}) == len(METHODS)
    return found


@pytest.fixture(scope="module")
def routes() -> list[BaseRoute]:
    """All of an application as a bridge puts it together."""
    one = build("version: 1\nhttp: {port: 0}\nstream: {bind: 'tcp://127.0.0.1:0'}\n")
    one.http.stop()
    found: list[BaseRoute] = []
    waiting: list[Any] = list(one.build_web().routes)
    while waiting:
        route = waiting.pop()
        inner = getattr(route, "original_router", None)  # routers are kept as they were included
        if inner is None:
            found.append(route)
        else:
            waiting += inner.routes
    return found


@pytest.fixture(scope="module")
def websockets(routes: list[BaseRoute]) -> list[str]:
    """Paths of all WebSockets that a bridge has."""
    paths = [route.path for route in routes if isinstance(route, APIWebSocketRoute)]
    assert "/api/v1/live" in paths
    return paths


def asked(
    bridge: Guarded,
    method: str,
    path: str,
    headers: Mapping[str, str] = MappingProxyType({}),
    source: str = "127.0.0.1",
) -> int:
    """The answer's status; its body is not waited for, since some never end."""
    at = httpx.URL(bridge.url)
    connection = http.client.HTTPConnection(
        at.host, at.port, timeout=PATIENCE_S, source_address=(source, 0)
    )
    with contextlib.closing(connection):
        body = None if method == "GET" else b"no JSON"  # so that nobody does what he may
        connection.request(method, path, body, dict(headers))
        return connection.getresponse().status


def stranger() -> str:
    """An address that nobody used before."""
    number = next(OTHERS)
    return f"127.0.{number // 250}.{number % 250 + 2}"


def expected(role: Role, method: str, path: str) -> int:
    """The refusal that the contract prescribes; 0 = none. Says the rule anew, on purpose."""
    if path in OPEN_TO_ALL:
        return 0
    if role is Role.NONE:
        return 401
    if method == "GET":
        return 403 if role is Role.METRICS and path != "/metrics" else 0
    return 0 if role is Role.CONTROL else 403


def refusal(status: int) -> int:
    """A status that refuses the caller; 0 for all others."""
    return status if status in (401, 403, 429) else 0


@pytest.mark.parametrize("role", [Role.CONTROL, Role.VIEW, Role.METRICS, Role.NONE])
def test_every_operation_asks_for_its_role(
    role: Role, bridge: Guarded, operations: list[tuple[str, str]]
) -> None:
    headers = {} if role is Role.NONE else bridge.headers(role)
    seen = {(m, p): asked(bridge, m, p, headers) for m, p in operations}
    assert {key: code for key, code in seen.items() if refusal(code) != expected(role, *key)} == {}
    assert {key: code for key, code in seen.items() if code >= 500 and key[1] != "/readyz"} == {}


def test_every_operation_refuses_a_wrong_token(
    bridge: Guarded, operations: list[tuple[str, str]]
) -> None:
    wrong = {"Authorization": f"Bearer {new_token()}"}
    seen = {(m, p): refusal(asked(bridge, m, p, wrong, stranger())) for m, p in operations}
    assert {
        key: status for key, status in seen.items() if status != expected(Role.NONE, *key)
    } == {}


def test_every_operation_knows_a_session(
    bridge: Guarded, operations: list[tuple[str, str]]
) -> None:
    for role in (Role.VIEW, Role.CONTROL):
        cookie = session(bridge, role)
        seen = {(m, p): refusal(asked(bridge, m, p, cookie)) for m, p in operations}
        assert {
            key: status for key, status in seen.items() if status != expected(role, *key)
        } == {}, role


def test_what_the_description_leaves_out_tells_nothing(routes: list[BaseRoute]) -> None:
    """Pages and the login; everything else is described, and so covered above."""
    silent = [r.path for r in routes if isinstance(r, Route) and not r.include_in_schema]
    assert "/login" in silent
    guarded = {path for path in silent if needed_role("http", "GET", path) is not Role.NONE}
    # The latter's HEAD; its GET is described.
    assert guarded == {"/api/v1/openapi.json", "/metrics"}
    assert needed_role("http", "HEAD", "/metrics") is Role.METRICS


def test_strangers_are_not_told_what_is_missing(bridge: Guarded) -> None:
    def reasons(headers: dict[str, str]) -> list[str]:
        told = httpx.get(f"{bridge.url}/readyz", headers=headers, timeout=PATIENCE_S).json()
        return list(told["not_ready_because"])

    wait_until(lambda: bool(reasons(bridge.headers(Role.VIEW))), PATIENCE_S)
    for headers in ({}, bridge.headers(Role.METRICS)):
        assert reasons(headers) == ["the reasons are shown to a token with the role view"]


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/login", "/api/v1/whoami"])
def test_only_reading_is_open_to_all(path: str, bridge: Guarded) -> None:
    assert refusal(asked(bridge, "POST", path)) == 401


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/status/",
        "//api/v1/status",
        "/page/../api/v1/status",
        "/api/v1/%73tatus",
        "/api/v1/status%2f",
    ],
)
def test_no_spelling_of_a_path_gets_around(path: str, bridge: Guarded) -> None:
    assert asked(bridge, "GET", path) in (401, 404)


# --- WebSockets -----------------------------------------------------------------------------------


def answer_to(bridge: Guarded, path: str, headers: dict[str, str], host: str = "") -> int:
    """101 = it opened.

    Args:
        bridge: to be asked.
        path: of the WebSocket.
        headers: to be sent.
        host: the name that leads to the bridge; empty = its address.
    """
    at = httpx.URL(bridge.url)
    line = socket.create_connection((at.host, at.port or 0), timeout=PATIENCE_S)
    try:
        url = f"ws://{host or at.host}:{at.port}{path}"
        with connect(url, sock=line, additional_headers=headers, open_timeout=PATIENCE_S):
            return 101
    except InvalidStatus as exc:
        return exc.response.status_code


def test_every_websocket_asks_for_the_role_view(bridge: Guarded, websockets: list[str]) -> None:
    origin, cookie = {"Origin": bridge.url}, session(bridge, Role.VIEW)
    for path in websockets:
        assert answer_to(bridge, path, origin) == 401, path
        assert answer_to(bridge, path, {"Authorization": f"Bearer {new_token()}"}) == 401, path
        assert answer_to(bridge, path, bridge.headers(Role.METRICS)) == 403, path
        for role in (Role.VIEW, Role.CONTROL):
            assert answer_to(bridge, path, bridge.headers(role) | origin) == 101, (path, role)
        assert answer_to(bridge, path, cookie | origin) == 101, path


def test_pages_elsewhere_open_no_websocket(bridge: Guarded, websockets: list[str]) -> None:
    """The browser would send the cookie along; a name rebound to this address is no better."""
    cookie = session(bridge, Role.CONTROL)
    port = httpx.URL(bridge.url).port
    for path in websockets:
        for foreign in (
            "https://attacker.example",
            "null",
            "http://localhost:1",
            f"http://127.0.0.1:{port}0",
        ):
            assert answer_to(bridge, path, cookie | {"Origin": foreign}) == 403, (path, foreign)
        rebound = cookie | {"Origin": f"http://attacker.example:{port}"}
        assert answer_to(bridge, path, rebound, host="attacker.example") == 403, path
        assert answer_to(bridge, path, cookie | {"Sec-Fetch-Site": "cross-site"}) == 403, path


# --- sessions and secrets -------------------------------------------------------------------------


def log_in(bridge: Guarded, role: Role) -> dict[str, str]:
    """A browser's cookies after it followed a link that lets it in."""
    link = make_link(bridge, role)
    answer = httpx.get(link, timeout=PATIENCE_S)
    assert answer.status_code == 303 and answer.headers["location"] == "./"
    return dict(answer.cookies)


def session(bridge: Guarded, role: Role) -> dict[str, str]:
    """What that browser sends from then on."""
    return {"Cookie": "; ".join(f"{name}={value}" for name, value in log_in(bridge, role).items())}


def make_link(bridge: Guarded, role: Role) -> str:
    answer = httpx.post(
        f"{bridge.url}/api/v1/login-links",
        json={"role": str(role)},
        headers=bridge.headers(Role.CONTROL),
        timeout=PATIENCE_S,
    )
    made = answer.raise_for_status().json()
    assert 0 < made["expires_s"] <= 600
    return f"{bridge.url}/{made['path']}"


def test_a_link_works_once_and_its_cookie_is_for_this_server_alone(bridge: Guarded) -> None:
    link = make_link(bridge, Role.VIEW)
    cookie = httpx.get(link, timeout=PATIENCE_S).headers["set-cookie"]
    port = httpx.URL(bridge.url).port
    assert re.fullmatch(rf"vil_session_{port}=[\w-]{{43}}; HttpOnly; SameSite=strict", cookie)
    assert not any(token in cookie for token in bridge.tokens.values())
    again = httpx.get(link, timeout=PATIENCE_S)
    assert again.status_code == 403 and "set-cookie" not in again.headers
    assert "`vil-bridge keys link` makes a new one" in again.json()["detail"]


def test_whoami(bridge: Guarded) -> None:
    url = f"{bridge.url}/api/v1/whoami"
    for role in (Role.METRICS, Role.VIEW, Role.CONTROL):
        told = httpx.get(url, headers=bridge.headers(role), timeout=PATIENCE_S).json()
        assert told == {"role": role, "token_required": True, "insecure": False}
    assert httpx.get(url, timeout=PATIENCE_S).json()["role"] == "none"
    assert (
        httpx.get(url, cookies=log_in(bridge, Role.VIEW), timeout=PATIENCE_S).json()["role"]
        == "view"
    )


def test_a_foreign_page_writes_nothing_with_a_session(bridge: Guarded) -> None:
    cookies = log_in(bridge, Role.CONTROL)
    url = f"{bridge.url}/api/v1/lighting"
    with httpx.Client(cookies=cookies, timeout=PATIENCE_S) as browser:
        for origin in ("https://attacker.example", "null"):
            assert browser.put(url, json={}, headers={"Origin": origin}).status_code == 403, origin
        assert browser.put(url, json={}, headers={"Origin": bridge.url}).is_success


def test_no_secret_shows_anywhere(
    bridge: Guarded, operations: list[tuple[str, str]], verb: Callable[..., str]
) -> None:
    """Whatever the bridge wrote, answers and reports, refused requests included."""
    cookies = log_in(bridge, Role.CONTROL)
    link = make_link(bridge, Role.CONTROL)
    for headers in (
        bridge.headers(Role.CONTROL),
        {"Authorization": f"Bearer {bridge.tokens[Role.VIEW][:-1]}"},
    ):
        httpx.get(f"{bridge.url}/api/v1/status", headers=headers, timeout=PATIENCE_S)
    secrets = [*bridge.tokens.values(), *cookies.values(), link.partition("key=")[2]]
    with httpx.Client(
        base_url=bridge.url, headers=bridge.headers(Role.CONTROL), timeout=PATIENCE_S
    ) as reading:
        texts = {
            p: reading.get(p).text for m, p in operations if m == "GET" and p != "/api/v1/updates"
        }
    assert str(bridge.token_file) in texts["/api/v1/config"]
    texts["log"] = bridge.log.read_text()
    texts["doctor"] = verb("doctor", str(bridge.config), "--report", "--json")
    texts["check"] = verb("check", str(bridge.config))
    assert "login?key=" not in texts["log"], "shown on a terminal only"
    assert "running: stream" in texts["log"] and json.loads(texts["doctor"])["findings"]
    assert {place for place, text in texts.items() for secret in secrets if secret in text} == set()


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a verb and return what it writes.

    With ``--json`` at its end, to standard output alone.
    """

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["vil-bridge", *arguments])
        with pytest.raises(SystemExit):
            main()
        said = capsys.readouterr()
        return said.out if arguments[-1] == "--json" else said.out + said.err

    return run


def test_verbs_come_in_by_the_tokens_of_their_file(
    bridge: Guarded, verb: Callable[..., str]
) -> None:
    where = [f"--set=http.port={httpx.URL(bridge.url).port}"]
    assert "guarded, up" in verb("top", str(bridge.config), "--once", *where)
    assert "guarded, up" in verb("top", bridge.url, "--once", f"--token-file={bridge.token_file}")
    assert "401" in verb("top", bridge.url, "--once")
    link = verb("keys", "link", str(bridge.config), "--control", *where).strip()
    cookies = httpx.get(link, timeout=PATIENCE_S).cookies
    assert (
        httpx.get(f"{bridge.url}/api/v1/whoami", cookies=cookies, timeout=PATIENCE_S).json()["role"]
        == "control"
    )
