"""A rig for long runs and drills: patient with a busy machine, and any process may be signalled."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from typing import Any, Final

from tests.harness import Rig
from tests.support import wait_until

PATIENCE_S: Final = 30.0
"""For an answer of the bridge."""
START_S: Final = 120.0
"""For a process to do its work."""


class PatientRig(Rig):
    """Adds to :class:`~tests.harness.Rig` what both need."""

    def get(self, path: str = "api/v1/status") -> dict[str, Any]:
        """A JSON answer of the daemon. Raises OSError."""
        found: dict[str, Any] = self.rest("GET", path)
        return found

    def rest(self, method: str, path: str, body: object | None = None) -> Any:
        """A JSON answer; None where it has no body. Raises OSError."""
        data = None if body is None else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.http_port}/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            text = answer.read()
            return json.loads(text) if text else None

    def until_ready(self, name: str) -> None:
        """Wait until the newest process of this name does its work as far as it alone can."""

        def ready() -> bool:
            assert self.alive(name), f"{name} ended:\n{self.log(name)[-2000:]}"
            return self._ready(name)

        wait_until(ready, START_S, f"{name} ready")

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send one."""
        os.kill(self.pid(name), number)
