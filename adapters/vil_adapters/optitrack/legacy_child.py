"""Process of ``legacy.py`` that runs PyPI ``natnetclient`` and prints one JSON line per frame.

Its reader waits up to a minute for a frame, its thread cannot be stopped, and an unexpected byte
ends it with any exception: this process contains all of that.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Final

from natnetclient.natnet import NatClient, NatCommSocket, NatDataSocket

_KEEPALIVE: Final = 10
_KEEPALIVE_PERIOD_S: Final = 1.0


class _Client(NatClient):  # type: ignore[misc]
    """Sockets and parser of the package, read by us.

    Its own constructor takes one address for both ends and starts a thread that mixes the values of
    frames.
    """

    def __init__(self, server_ip: str, local_ip: str, command_port: int, data_port: int) -> None:
        self.unidentified_markers: list[Any] = []
        self.labeled_markers: dict[int, Any] = {}
        self.marker_sets: dict[str, Any] = {}
        self.rigid_bodies_by_id: dict[int, Any] = {}
        self.rigid_bodies: dict[str, Any] = {}
        self.recording_start_time = 0
        self.timestamp: float | None = None
        self._is_recording = False
        self.comm_sock = NatCommSocket(local_ip, command_port)
        self.comm_sock.server_ip = server_ip
        self.server_name, self.version, self.natnet_version = self.ping()
        self.get_model()
        self.data_sock = NatDataSocket(client_ip=local_ip, port=data_port)

    def frame(self) -> dict[str, Any]:
        """Wait for the next frame."""
        self.get_data()
        bodies = [
            (b.name, b.position, b.quaternion, b.seen)
            for b in self.rigid_bodies.values()
            if b.position
        ]
        return {"number": self.iFrame, "timestamp_s": self.timestamp, "bodies": bodies}


def main() -> None:
    """Print frames until the parent is gone."""
    output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the package prints
    client = _Client(**json.loads(sys.argv[1]))
    version = ".".join(map(str, client.natnet_version[:2]))
    os.write(output, json.dumps({"version": version}).encode() + b"\n")
    alive_s = time.monotonic()
    while True:
        os.write(output, json.dumps(client.frame()).encode() + b"\n")
        if client.tracked_models_changed:
            client.get_model()
        if time.monotonic() - alive_s > _KEEPALIVE_PERIOD_S:
            alive_s = time.monotonic()
            client.comm_sock.send(_KEEPALIVE, sleep_time=0)


if __name__ == "__main__":
    main()
