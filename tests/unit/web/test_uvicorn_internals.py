"""The versions of uvicorn with which our use of its inside was checked."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version

from uvicorn import Server
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from tests.support.common import ROOT
from vil_bridge.web import uvicorn_internals

CHECKED = ("0.54",)
"""Versions with which the tests of the server in tests/e2e passed.

Its bounds, its thread, feeds and updates.
"""


def test_the_installed_version_was_checked_and_the_bound_excludes_the_next() -> None:
    installed = ".".join(version("uvicorn").split(".")[:2])
    assert installed in CHECKED
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (need,) = (need for need in needs if need.startswith("uvicorn"))
    bound = re.fullmatch(r"uvicorn>=0\.35,<0\.(\d+)", need)
    assert bound, need
    assert int(bound[1]) == 1 + max(int(checked.partition(".")[2]) for checked in CHECKED)


def test_uvicorn_has_what_our_classes_override() -> None:
    ours = {
        uvicorn_internals.UvicornServer: (Server, {"startup", "on_tick", "shutdown"}),
        uvicorn_internals._HttpProtocol: (
            H11Protocol,
            {"on_response_complete", "handle_websocket_upgrade"},
        ),
        uvicorn_internals._WebSocketProtocol: (
            WebSocketsSansIOProtocol,
            {"handle_ping", "handle_pong", "handle_connect", "handle_cont"},
        ),
    }
    for own, (base, names) in ours.items():
        assert names <= vars(own).keys() & vars(base).keys()
