"""Tokens and their file, sessions, rates, and the rule who may do what."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from pathlib import Path

import pytest
from fastapi import FastAPI, HTTPException, Request
from starlette.types import Message, Receive, Scope, Send

from tests.support.programs import output
from vil_bridge.core.errors import ConfigError
from vil_bridge.runtime.access_tokens import Role, Tokens, new_token, read_token, read_tokens
from vil_bridge.runtime.rates import RateLimiter, peer_of
from vil_bridge.runtime.secret_file import read_private, refuse_shared, write_private
from vil_bridge.setup.keys import new_tokens
from vil_bridge.web.auth.access import Access, cookie_name, missing_role, needed_role
from vil_bridge.web.auth.login import login_router
from vil_bridge.web.auth.middleware import SecurityMiddleware
from vil_bridge.web.auth.sessions import Sessions
from vil_bridge.web.request_body import read_body
from vil_bridge.web.schemas.body import Body

A, B = "a" * 32, "b" * 40


class Clock:
    """Seconds that a test lets pass."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


# --- the token file -------------------------------------------------------------------------------


def test_a_new_file_holds_one_token_for_each_role_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    before = os.umask(0)
    try:
        new_tokens(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = {role: read_token(path, role) for role in Role if role is not Role.NONE}
    assert len(set(found.values())) == 3 and all(len(token) == 43 for token in found.values())
    tokens = read_tokens(path)
    assert {role: tokens.role_of(token) for role, token in found.items()} == {
        role: role for role in found
    }
    with pytest.raises(ConfigError, match="is there already; tokens are not overwritten"):
        new_tokens(path)
    with pytest.raises(ConfigError, match="cannot be written: No such file"):
        new_tokens(tmp_path / "nowhere" / "tokens")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o606])
def test_a_file_that_others_can_read_is_refused_with_the_cure(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    new_tokens(path)
    path.chmod(mode)
    with pytest.raises(
        ConfigError, match=rf"^{path}: others may read these tokens; chmod 600 {path}$"
    ):
        read_tokens(path)


def test_credentials_of_a_service_manager_may_show_its_acl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokens"
    new_tokens(path)
    path.chmod(0o440)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    read_tokens(path)
    path.chmod(0o444)
    with pytest.raises(ConfigError, match="others may read"):
        read_tokens(path)
    monkeypatch.delenv("CREDENTIALS_DIRECTORY")  # root, who makes a login link for the service
    credential = Path("/run/credentials/vil-bridge.service/tokens")
    with path.open() as file:
        path.chmod(0o440)
        refuse_shared(credential, "these tokens", file.fileno())
        with pytest.raises(ConfigError, match="others may read"):
            refuse_shared(path, "these tokens", file.fileno())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "holds no token; `vil-bridge keys token` makes"),
        ("# nothing\n\n", "holds no token"),
        (f"# ours\nadmin = {A}\n", ":2: write ROLE = TOKEN"),
        (f"control {A}\n", ":1: write ROLE = TOKEN"),
        ("view = short\n", ":1: write ROLE = TOKEN"),
        (f"view = {'a' * 257}\n", ":1: write ROLE = TOKEN"),
        (f"view = {'ä' * 40}\n", ":1: write ROLE = TOKEN"),
        (f"view = {A}\nview = {B}\n", ":2: each role once"),
        (f"view = {A}\ncontrol = {A}\n", ":2: each role once, and no token for two"),
    ],
)
def test_a_wrong_file_is_named_with_its_line_and_without_its_content(
    text: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "tokens"
    write_private(path, text)
    with pytest.raises(ConfigError) as caught:
        read_tokens(path)
    assert str(caught.value).startswith(str(path)) and reason in str(caught.value)
    assert not any(part in str(caught.value) for part in (A, B, "short"))


def test_secret_files_are_read_within_limits(tmp_path: Path) -> None:
    (tmp_path / "large").touch(0o600)
    (tmp_path / "large").write_bytes(b"x" * 65537)
    with pytest.raises(
        ConfigError, match="larger than 65536 bytes, which is too large for these words"
    ):
        read_private(tmp_path / "large", "these words")
    (tmp_path / "latin").touch(0o600)
    (tmp_path / "latin").write_bytes(b"\xe4")
    with pytest.raises(ConfigError, match=r"cannot be read: .*utf-8"):
        read_private(tmp_path / "latin", "these words")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_private(tmp_path / "absent", "these words")


@pytest.mark.process
def test_a_secret_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """A new file of a process may be 4 bytes long at most: what a full disk does, without one."""
    path = tmp_path / "secret"
    program = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from vil_bridge.runtime.secret_file import write_private\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4))\n"
        "try:\n    write_private(Path(sys.argv[1]), 'twelve bytes')\n"
        "except OSError as exc:\n    print(exc.filename, exc.strerror)"
    )
    told = output(sys.executable, "-c", program, path)
    assert told == f"{path} File too large\n"
    assert not path.exists(), "half a secret would be in the way of the next attempt"


def test_a_role_may_be_left_out_and_control_stands_in_for_view(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    write_private(path, f"control = {A}  \n")
    assert read_token(path, Role.VIEW) == A
    write_private(tmp_path / "viewers", f"view={B}\n")
    with pytest.raises(ConfigError, match="holds no token for control"):
        read_token(tmp_path / "viewers", Role.CONTROL)


def test_only_the_whole_token_counts_and_none_is_kept() -> None:
    tokens = Tokens({Role.VIEW: A, Role.CONTROL: B})
    for wrong in ("", A[:-1], A + "a", A.upper(), new_token(), "\udcff", "ä"):
        assert tokens.role_of(wrong) is Role.NONE
    assert A not in repr(vars(tokens)) and B not in repr(vars(tokens))


# --- sessions -------------------------------------------------------------------------------------


def test_a_link_is_good_once_and_for_ten_minutes() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    key, late = sessions.invite(Role.CONTROL), sessions.invite(Role.VIEW)
    session = sessions.enter(key)
    assert session is not None and session != key
    assert sessions.role_of(session) is Role.CONTROL
    assert (
        sessions.enter(key) is None
        and sessions.enter("") is None
        and sessions.enter(session) is None
    )
    assert sessions.role_of(key) is Role.NONE
    clock.now_s += 601
    assert sessions.enter(late) is None


def test_a_session_ends_after_twelve_silent_hours() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    session = sessions.enter(sessions.invite(Role.VIEW)) or ""
    for _ in range(3):
        clock.now_s += 11.9 * 3600
        assert sessions.role_of(session) is Role.VIEW
    clock.now_s += 12.1 * 3600
    assert sessions.role_of(session) is Role.NONE


def test_links_and_sessions_are_few_and_the_oldest_goes_first() -> None:
    sessions = Sessions(Clock())
    links = [sessions.invite(Role.VIEW) for _ in range(17)]
    assert sessions.enter(links[0]) is None and sessions.enter(links[1]) is not None
    first = sessions.enter(sessions.invite(Role.CONTROL)) or ""
    others = [sessions.enter(sessions.invite(Role.VIEW)) or "" for _ in range(63)]
    assert sessions.role_of(first) is Role.CONTROL  # and so it is the newest again
    assert sessions.enter(sessions.invite(Role.VIEW))
    assert sessions.role_of(first) is Role.CONTROL and sessions.role_of(others[0]) is Role.NONE


# --- rates ----------------------------------------------------------------------------------------


def test_a_rate_lets_a_burst_through_and_then_so_many_a_second() -> None:
    clock = Clock()
    rate = RateLimiter(per_s=2.0, burst=3, clock=clock)
    for _ in range(3):
        assert rate.wait_s("a") == 0.0
        rate.take("a")
    assert rate.wait_s("a") == pytest.approx(0.5) and rate.wait_s("b") == 0.0
    clock.now_s += 0.5
    assert rate.wait_s("a") == 0.0
    clock.now_s += 100.0
    for _ in range(3):
        assert rate.wait_s("a") == 0.0
        rate.take("a")
    assert rate.wait_s("a") > 0.0


def test_the_table_of_peers_is_bounded() -> None:
    rate = RateLimiter(per_s=1.0, burst=1, clock=Clock())
    for number in range(5000):
        rate.take(str(number))
    assert rate.wait_s("0") == 0.0 and rate.wait_s("4999") > 0.0
    assert len(rate._full_at_s) == 1024


def test_an_ipv6_network_is_one_peer() -> None:
    assert peer_of("2001:db8::1") == peer_of("2001:db8::ffff:1") != peer_of("2001:db8:0:1::1")
    assert peer_of("fe80::1%eth0") == peer_of("fe80::2%eth0")
    assert peer_of("::ffff:10.0.0.5") == peer_of("10.0.0.5") != peer_of("10.0.0.6")
    assert peer_of("::1") == "::1" and peer_of("testclient") == "testclient"


def test_200_changes_then_100_a_second_and_10_wrong_tokens_then_one_each_5_s() -> None:
    access = Access()
    for rate, burst, per_s in ((access.writes, 200, 100.0), (access.failures, 10, 0.2)):
        rate.take("a", cost=burst - 1 + 1000.0 * per_s)
        assert rate.wait_s("a") == pytest.approx(1000.0, abs=1.0)


# --- the rule -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "method", "path", "role"),
    [
        ("http", "GET", "/", Role.NONE),
        ("http", "HEAD", "/app.js", Role.NONE),
        ("http", "GET", "/page/style.css", Role.NONE),
        ("http", "GET", "/healthz", Role.NONE),
        ("http", "GET", "/metrics", Role.METRICS),
        ("http", "GET", "/api/v1/status", Role.VIEW),
        ("http", "GET", "/api/v1/app.js", Role.VIEW),
        ("http", "GET", "/page/../api/v1/x.txt", Role.VIEW),
        ("http", "GET", "/healthz/", Role.VIEW),
        ("http", "GET", "/\n", Role.VIEW),
        ("http", "POST", "/", Role.CONTROL),
        ("http", "OPTIONS", "/api/v1/status", Role.CONTROL),
        ("http", "TRACE", "/healthz", Role.CONTROL),
        ("http", "get", "/healthz", Role.CONTROL),
        ("websocket", "", "/", Role.VIEW),
        ("websocket", "", "/healthz", Role.VIEW),
    ],
)
def test_reading_needs_view_changing_needs_control(
    kind: str, method: str, path: str, role: Role
) -> None:
    assert needed_role(kind, method, path) is role


def test_roles_include_the_smaller_ones() -> None:
    covered = {role: [other for other in Role if role.covers(other)] for role in Role}
    assert covered[Role.NONE] == [Role.NONE]
    assert covered[Role.METRICS] == [Role.NONE, Role.METRICS]
    assert covered[Role.VIEW] == [Role.NONE, Role.METRICS, Role.VIEW]
    assert covered[Role.CONTROL] == list(Role)


def test_a_role_that_does_not_suffice_is_told_from_none() -> None:
    assert missing_role(Role.CONTROL, Role.VIEW) is None
    assert missing_role(Role.VIEW, Role.CONTROL) == "this needs the role control, yours is view"
    assert (missing_role(Role.NONE, Role.VIEW) or "").startswith("a token is needed")


@pytest.mark.parametrize(
    ("name", "token", "refusal"),
    [
        ("hover", "", "this needs a token of the role control; give"),
        ("hover", A, "this needs the role control, yours is view"),
        ("hover", B, None),
        ("vehicles", "", "this needs a token of the role view; give"),
        ("vehicles", A, None),
    ],
)
def test_commands_on_the_stream_need_the_roles_of_http(
    name: str, token: str, refusal: str | None
) -> None:
    refused = Access(Tokens({Role.VIEW: A, Role.CONTROL: B})).refuses_command(name, token)
    assert refused is None if refusal is None else (refused or "").startswith(refusal)
    assert Access().refuses_command(name, token) is None


def test_a_wrong_token_counts_as_a_failure_and_a_right_one_never() -> None:
    access = Access(Tokens({Role.VIEW: A, Role.CONTROL: B}), failures=RateLimiter(1.0, 1, Clock()))
    for token, role in ((A, Role.VIEW), (B, Role.CONTROL)):
        assert access.role_of({"authorization": f"Bearer {token}"}, "peer", "cookie") is role
    assert access.failures.wait_s("peer") == 0.0
    assert access.role_of({"authorization": "Bearer wrong"}, "peer", "cookie") is Role.NONE
    assert access.failures.wait_s("peer") > 0.0


def test_cookies_are_named_by_the_port_and_nothing_is_insecure_unless_it_is_said() -> None:
    assert cookie_name({"server": ("host", 8080)}) == "vil_session_8080"
    assert cookie_name({}) == cookie_name({"server": None}) == "vil_session_0"
    assert not Access().insecure


def test_the_description_of_login_links_names_every_refusal() -> None:
    app = FastAPI()
    app.include_router(login_router(Access()))
    responses = app.openapi()["paths"]["/api/v1/login-links"]["post"]["responses"]
    assert set(responses) == {"200", "408", "409", "413"}


# --- limits ---------------------------------------------------------------------------------------


async def silent() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def turns() -> None:
    """Let the loop run what is due."""
    for _ in range(100):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("size", "status"), [(65_536, 422), (65_537, 413)])
async def test_a_body_of_64_kib_is_read(size: int, status: int) -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": bytes(size)}

    with pytest.raises(HTTPException) as refused:
        await read_body(Request({"type": "http"}, receive), Body)
    assert refused.value.status_code == status


async def test_a_body_may_take_5_s(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, clock = asyncio.get_running_loop(), Clock()
    monkeypatch.setattr(loop, "time", clock)
    reading = asyncio.create_task(read_body(Request({"type": "http"}, silent), Body))
    await turns()
    for later_s, done in ((4.9, False), (0.2, True)):
        clock.now_s += later_s
        await turns()
        assert reading.done() is done
    with pytest.raises(HTTPException) as refused:
        await reading
    assert refused.value.status_code == 408


class Guarded:
    """A guard before requests that end when the test says so.

    Attributes:
        statuses: of the guard's refusals.
    """

    def __init__(self) -> None:
        self.ended, self.statuses = asyncio.Event(), list[int]()
        self._guard = SecurityMiddleware(self._app, Access())

    async def ask(self, kind: str, method: str = "", filler: bytes = b"") -> None:
        headers = [(b"host", b"localhost"), (b"x", filler)]
        await self._guard(
            {"type": kind, "method": method, "path": "/", "headers": headers}, silent, self._send
        )

    async def _app(self, _scope: Scope, _receive: Receive, _send: Send) -> None:
        await self.ended.wait()

    async def _send(self, message: Message) -> None:
        if "status" in message:
            self.statuses.append(message["status"])


async def test_headers_of_16_kib_are_read() -> None:
    guarded = Guarded()
    guarded.ended.set()
    for size in (16_370, 16_371):  # the names and the host take 14 bytes
        assert not guarded.statuses
        await guarded.ask("http", "GET", bytes(size))
    assert guarded.statuses == [431]


async def test_websockets_that_ended_make_room_for_as_many() -> None:
    guarded = Guarded()
    for refusals in (1, 2):
        opened = [asyncio.create_task(guarded.ask("websocket")) for _ in range(33)]
        await turns()
        assert guarded.statuses == [503] * refusals
        guarded.ended.set()
        await asyncio.gather(*opened)
        guarded.ended.clear()
