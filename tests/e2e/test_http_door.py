"""The HTTP server's door.

TLS for verifying clients, connections and handshakes bounded, rates kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import HTTPException, Request
from starlette.types import Message

from tests.support.common import ROOT, wait_until
from tests.support.guarded_bridge import guarded_bridge
from tests.support.programs import VIL_BRIDGE, output, run
from tests.support.sample_snapshot import sample_snapshot
from vil_bridge.cli.bridge_client import BridgeAddress
from vil_bridge.config.simulation import SimulationConfig
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import Lighting
from vil_bridge.daemon.simulation_clock import SimulationClock
from vil_bridge.monitoring.prometheus import metrics_registry
from vil_bridge.runtime.access_tokens import Role, Tokens, new_token
from vil_bridge.runtime.network import http_url
from vil_bridge.runtime.rates import RateLimiter
from vil_bridge.setup.keys import new_certificate
from vil_bridge.web import acceptor
from vil_bridge.web.app import create_app
from vil_bridge.web.auth.access import Access, login_path
from vil_bridge.web.request_body import read_body
from vil_bridge.web.schemas.body import Body
from vil_bridge.web.server import HttpServer, bind_http
from vil_bridge.web.tls import tls_context

pytestmark = pytest.mark.process


PATIENCE_S = 180.0
needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="no openssl: apt-get install openssl"
)


class Scene:
    """Whose light can be changed."""

    lighting: Lighting | None = None


@contextlib.contextmanager
def serving(
    access: Access, tls: ssl.SSLContext | None = None, bind: str = "127.0.0.1"
) -> Iterator[HttpServer]:
    app = create_app(
        sample_snapshot,
        metrics_registry(sample_snapshot),
        preview=lambda _: None,
        light=Scene(),
        clock=SimulationClock(SimulationConfig()),
        access=access,
    )
    server = HttpServer(lambda: app, bind_http(bind, 0), tls, access.counters)
    server.start()
    try:
        yield server
    finally:
        server.stop()


# --- TLS ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Certificate, key and authority."""
    return new_certificate(tmp_path_factory.mktemp("tls") / "keys", ["bridge.lan", "127.0.0.1"])


@pytest.fixture(scope="module")
def secure(files: tuple[Path, Path, Path]) -> Iterator[tuple[HttpServer, Access]]:
    access = Access(hosts=frozenset({"bridge.lan"}), tokens=Tokens({Role.CONTROL: "c" * 32}))
    with serving(access, tls_context(files[0], files[1])) as server:
        yield server, access


@needs_openssl
def test_a_client_that_verifies_is_served(
    secure: tuple[HttpServer, Access], files: tuple[Path, Path, Path]
) -> None:
    server, access = secure
    trusting = ssl.create_default_context(cafile=files[2])
    assert server.url.startswith("https://127.0.0.1:")
    with httpx.Client(base_url=server.url, verify=trusting, timeout=PATIENCE_S) as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        answer = client.get(login_path(access, Role.VIEW))
        assert (
            "Secure" in answer.headers["set-cookie"] and "HttpOnly" in answer.headers["set-cookie"]
        )
        origin = {"Origin": server.url.rstrip("/")}
        assert client.get("/api/v1/status", headers=origin).status_code == 200, (
            "the cookie came along"
        )
    named = {"Host": "bridge.lan", "Authorization": f"Bearer {'c' * 32}"}
    with httpx.Client(verify=trusting, timeout=PATIENCE_S) as client:
        by_name = client.get(
            f"{server.url}api/v1/status", headers=named, extensions={"sni_hostname": "bridge.lan"}
        )
        assert by_name.status_code == 200
    fresh = httpx.Client(verify=trusting, timeout=PATIENCE_S)
    with fresh, pytest.raises(httpx.ConnectError, match="Hostname mismatch"):
        fresh.get(server.url, extensions={"sni_hostname": "other.lan"})


@needs_openssl
def test_the_health_check_of_a_container_trusts_its_own_bridge(
    secure: tuple[HttpServer, Access],
) -> None:
    check = (sys.executable, ROOT / "deploy" / "docker" / "healthy.py")
    output(*check, f"{secure[0].url}healthz")
    deaf = run(*check, "https://127.0.0.1:1/healthz")
    assert deaf.returncode == 1 and "does not answer" in deaf.stderr


@needs_openssl
def test_who_does_not_trust_the_authority_hangs_up(secure: tuple[HttpServer, Access]) -> None:
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(secure[0].url, timeout=PATIENCE_S)


@needs_openssl
def test_verbs_take_exactly_the_certificate_of_their_file(
    secure: tuple[HttpServer, Access], files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    def health(certificate: Path | None) -> bytes:
        bridge = BridgeAddress(secure[0].url, certificate=certificate, timeout_s=PATIENCE_S)
        with bridge.explained():
            return bridge.ask("GET", "healthz")

    assert json.loads(health(files[0])) == {"status": "ok"}
    other = new_certificate(tmp_path, ["127.0.0.1"])[0]
    with pytest.raises(ConfigError, match=f"CERTIFICATE_VERIFY_FAILED .* does not show {other}"):
        health(other)
    with pytest.raises(
        ConfigError, match=r"CERTIFICATE_VERIFY_FAILED .* is not trusted .* or trust its ca\.pem"
    ):
        health(None)


@needs_openssl
def test_old_tls_and_plain_http_get_nothing(secure: tuple[HttpServer, Access]) -> None:
    at = urlsplit(secure[0].url)
    plain = socket.create_connection((at.hostname or "", at.port or 0), timeout=PATIENCE_S)
    with plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"HTTP/" not in _all_of(plain)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    raw = socket.create_connection((at.hostname or "", at.port or 0), timeout=PATIENCE_S)
    with raw, pytest.raises(OSError, match=r"PROTOCOL|ALERT|reset|closed"):
        old.wrap_socket(raw)
    wait_until(lambda: secure[0].faults().get("handshake", 0) >= 1, PATIENCE_S)


@needs_openssl
def test_who_never_finishes_the_handshake_is_cut_off(
    secure: tuple[HttpServer, Access], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "_HANDSHAKE_S", 0.2)
    at = urlsplit(secure[0].url)
    before = secure[0].faults().get("handshake", 0)
    with socket.create_connection((at.hostname or "", at.port or 0), timeout=PATIENCE_S) as silent:
        assert _all_of(silent) == b""
    wait_until(lambda: secure[0].faults()["handshake"] > before, PATIENCE_S)


@needs_openssl
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda cert, key: key.chmod(0o640), "others may read this private key; chmod 600"),
        (
            lambda cert, key: key.unlink(),
            "cannot be read: No such file or directory; `vil-bridge keys tls` creates both",
        ),
        (
            lambda cert, key: cert.unlink(),
            "cannot be read: No such file or directory; `vil-bridge keys tls` creates both",
        ),
        (lambda cert, key: cert.write_text("nothing"), "not a certificate and its key"),
        (lambda cert, key: key.write_text("nothing"), "not a certificate and its key"),
        (
            lambda cert, key: cert.write_text((cert.parent / "ca.pem").read_text()),
            "without a password: KEY_VALUES_MISMATCH",
        ),
    ],
)
def test_files_that_cannot_be_used_are_named(
    spoil: Callable[[Path, Path], object],
    reason: str,
    files: tuple[Path, Path, Path],
    tmp_path: Path,
) -> None:
    certificate, key, _ = (Path(shutil.copy(path, tmp_path)) for path in files)
    spoil(certificate, key)
    with pytest.raises(ConfigError) as caught:
        tls_context(certificate, key)
    assert reason in str(caught.value) and str(tmp_path) in str(caught.value)


@needs_openssl
def test_the_authoritys_key_is_gone_and_nothing_is_overwritten(
    files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    assert {path.name for path in files[0].parent.iterdir()} == {
        "server.pem",
        "server.key",
        "ca.pem",
    }
    assert files[1].stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match="is there already; a certificate is not overwritten"):
        new_certificate(files[0].parent, ["bridge.lan"])
    for host in ("", "a b", "x,DNS:evil", "-a", "a..b", "é.lan", "*.lan"):
        with pytest.raises(ConfigError, match="is neither a name nor an address of a computer"):
            new_certificate(tmp_path, [host])
    assert list(tmp_path.iterdir()) == []


@needs_openssl
def test_keys_tls_makes_what_the_configuration_names(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    made = _verb("keys", "tls", str(folder), "--host", "bridge.lan", "--host", "10.0.0.7")
    assert "its own key is gone" in made
    shown = output(
        "openssl", "x509", "-in", folder / "server.pem", "-noout", "-ext", "subjectAltName"
    )
    for name in ("DNS:bridge.lan", "IP Address:10.0.0.7", "DNS:localhost", "IP Address:127.0.0.1"):
        assert name in shown
    tls_context(folder / "server.pem", folder / "server.key")


@pytest.mark.parametrize("address", ["192.0.2.1", "127.0.0.1:8080", "fe80::1"])
def test_an_address_that_is_not_ours_is_no_matter_of_the_port(address: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"^http: cannot listen on {address}: [\w ]+; `http.bind` wants"
    ):
        bind_http(address, 0)


# --- connections, rates ---------------------------------------------------------------------------


def test_one_peer_cannot_take_all_connections() -> None:
    here = urlsplit(http_url("0.0.0.0", 0)).hostname or ""
    if here.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    with serving(Access(), bind="0.0.0.0") as server, contextlib.ExitStack() as held:
        port = urlsplit(server.url).port or 0
        for _ in range(60):
            held.enter_context(socket.create_connection((here, port), timeout=PATIENCE_S))
        wait_until(lambda: server.faults().get("too_many", 0) >= 60 - 48, PATIENCE_S)
        assert (
            httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE_S).status_code == 200
        ), "others come in"


def test_wrong_tokens_are_slowed_down_for_who_shows_them() -> None:
    good = new_token()
    with serving(Access(Tokens({Role.VIEW: good}))) as server:
        wrong = [{"Authorization": f"Bearer {new_token()}"} for _ in range(40)]
        with httpx.Client(base_url=server.url, timeout=PATIENCE_S) as guessing:
            codes = [
                guessing.get("/api/v1/status", headers=headers).status_code for headers in wrong
            ]
            assert codes[:10] == [401] * 10 and 429 in codes and codes.count(401) < 20
            held = guessing.get("/api/v1/status", headers={"Authorization": f"Bearer {good}"})
            assert held.status_code == 429 and int(held.headers["retry-after"]) >= 1, (
                "not told whether it was right"
            )
        there = httpx.HTTPTransport(local_address="127.0.0.9")
        with httpx.Client(base_url=server.url, transport=there, timeout=PATIENCE_S) as other:
            assert (
                other.get("/api/v1/status", headers={"Authorization": f"Bearer {good}"}).status_code
                == 200
            )
        assert server.faults()["too_often"] >= 1 and server.faults()["unauthorized"] >= 10


def test_a_program_with_an_old_token_keeps_nobody_beside_it_out() -> None:
    good, old = new_token(), {"Authorization": f"Bearer {new_token()}"}
    server = serving(Access(Tokens({Role.VIEW: good})))
    with server as running, httpx.Client(base_url=running.url, timeout=PATIENCE_S) as client:
        assert {client.get("/metrics", headers=old).status_code for _ in range(30)} == {401}
        assert (
            client.get("/metrics", headers={"Authorization": f"Bearer {good}"}).status_code == 200
        )


def test_a_page_elsewhere_cannot_use_up_the_attempts_of_its_reader() -> None:
    page = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    access = Access(Tokens({Role.VIEW: new_token()}))
    with (
        serving(access) as server,
        httpx.Client(base_url=server.url, timeout=PATIENCE_S) as browser,
    ):
        for hidden in (
            {"Sec-Fetch-Dest": "iframe"},
            {"Sec-Fetch-Dest": "document", "Sec-Purpose": "prefetch;prerender"},
        ):
            for _ in range(15):
                answer = browser.get(f"/login?key={new_token()}", headers=page | hidden)
                assert answer.status_code == 403 and "other web sites" in answer.text
        form = page | {"Sec-Fetch-Dest": "document"}
        assert browser.post("/api/v1/login-links", json={}, headers=form).status_code == 403, (
            "a form is no visit"
        )
        link = "/" + login_path(access, Role.VIEW)
        assert (
            browser.get(link, headers=page | {"Sec-Fetch-Dest": "document"}).status_code == 303
        ), "a link in a mail"


def test_a_link_that_a_browser_fetches_before_it_is_opened_is_not_used_up() -> None:
    access = Access(Tokens({Role.VIEW: new_token()}))
    with (
        serving(access) as server,
        httpx.Client(base_url=server.url, timeout=PATIENCE_S) as browser,
    ):
        link, visit = (
            "/" + login_path(access, Role.VIEW),
            {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
        )
        ahead = browser.get(link, headers=visit | {"Sec-Purpose": "prefetch"})
        assert ahead.status_code == 503 and "set-cookie" not in ahead.headers
        assert browser.get(link, headers=visit).status_code == 303
        assert browser.get(link, headers=visit).status_code == 403, "it works once"


def test_a_bridge_without_tokens_makes_no_links() -> None:
    with (
        serving(Access()) as server,
        httpx.Client(base_url=server.url, timeout=PATIENCE_S) as client,
    ):
        refused = client.post("/api/v1/login-links", json={})
        assert (refused.status_code, refused.json()["detail"].partition(":")[0]) == (
            409,
            "no link is needed",
        )
        told = client.get("/api/v1/whoami").json()
        assert told == {"role": "control", "token_required": False, "insecure": False}


def test_wrong_links_are_slowed_down_too() -> None:
    server = serving(Access(Tokens({Role.VIEW: new_token()})))
    with server as running, httpx.Client(base_url=running.url, timeout=PATIENCE_S) as guessing:
        codes = [guessing.get(f"/login?key={new_token()}").status_code for _ in range(30)]
    assert codes[:10] == [403] * 10 and 429 in codes


def test_an_old_link_that_is_tried_again_and_again_keeps_nobody_out() -> None:
    """A page that was left open does so."""
    good = new_token()
    server = serving(Access(Tokens({Role.VIEW: good})))
    with server as running, httpx.Client(base_url=running.url, timeout=PATIENCE_S) as client:
        assert {client.get("/login?key=old").status_code for _ in range(30)} == {403}
        assert (
            client.get("/metrics", headers={"Authorization": f"Bearer {good}"}).status_code == 200
        )


def test_changes_are_slowed_down_and_reading_goes_on() -> None:
    access = Access(writes=RateLimiter(per_s=0.01, burst=20))
    with serving(access) as server, httpx.Client(base_url=server.url, timeout=PATIENCE_S) as client:
        answers = [client.put("/api/v1/lighting", json={}) for _ in range(25)]
        assert [answer.status_code for answer in answers] == [200] * 20 + [429] * 5
        assert int(answers[-1].headers["retry-after"]) <= 100, "what was refused does not count"
        assert client.get("/api/v1/lighting").status_code == 200


def test_a_cookie_nobody_knows_is_no_attempt() -> None:
    """After a restart all pages that were left open send one."""
    with serving(Access(Tokens({Role.VIEW: new_token()}))) as server:
        name = f"vil_session_{urlsplit(server.url).port}"
        with httpx.Client(base_url=server.url, cookies={name: "stale"}, timeout=PATIENCE_S) as page:
            assert {page.get("/api/v1/status").status_code for _ in range(30)} == {401}


def test_long_headers_and_bodies_are_refused() -> None:
    with (
        serving(Access()) as server,
        httpx.Client(base_url=server.url, timeout=PATIENCE_S) as client,
    ):
        assert client.put("/api/v1/lighting", content=b" " * 70_000).status_code == 413
        with contextlib.suppress(httpx.TransportError):
            assert client.get("/healthz", headers={"X-Long": "x" * 100_000}).status_code in (
                400,
                431,
            )
        assert client.get("/healthz").status_code == 200


def test_a_link_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    """A log is no place for it; on a terminal it lets its reader in."""
    ours, theirs = pty.openpty()
    with guarded_bridge(tmp_path, stdout=theirs) as bridge:
        os.close(theirs)
        with os.fdopen(ours, encoding="utf-8") as shown:
            line = shown.readline().strip()
            link = line[line.index("http") :]
            assert httpx.get(link, timeout=PATIENCE_S).status_code == 303
        assert "login?key=" not in bridge.log.read_text()


def _all_of(sock: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionError):
        while part := sock.recv(4096):
            received += part
    return received


def _verb(*arguments: str) -> str:
    return output(*VIL_BRIDGE, *arguments)


async def test_a_body_that_is_broken_off_is_no_bug_of_ours() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    with pytest.raises(HTTPException) as told:
        await read_body(Request({"type": "http"}, receive), Body)
    assert told.value.status_code == 400
