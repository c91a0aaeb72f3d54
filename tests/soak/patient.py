"""A rig for long runs and drills: patient with a busy machine, and any process may be signalled."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from typing import Any, ClassVar, Final

from tests.support.harness import Rig

PATIENCE_S: Final = 30.0
"""For an answer of the bridge."""


class PatientRig(Rig):
    """Adds to :class:`~tests.support.harness.Rig` what both need."""

    start_s: ClassVar[float] = 120.0

    def get(self, path: str = "api/v1/status") -> dict[str, Any]:
        """A JSON answer of the daemon. Raises OSError."""
        found: dict[str, Any] = self.rest("GET", path)
        return found

    def headers(self) -> dict[str, str]:
        """Return the headers of every request."""
        return {}

    def rest(self, method: str, path: str, body: object | None = None) -> Any:
        """A JSON answer; None where it has no body. Raises OSError."""
        data = None if body is None else json.dumps(body).encode()
        headers = self.headers() | ({} if data is None else {"Content-Type": "application/json"})
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.http_port}/{path}", data, headers, method=method
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            text = answer.read()
            return json.loads(text) if text else None

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send one."""
        os.kill(self.pid(name), number)
