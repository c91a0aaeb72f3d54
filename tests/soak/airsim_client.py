"""A random program of AirSim: ``python -m tests.soak.airsim_client PORT SEED KIND LOG``.

It runs until it is killed.

Each line of its log is an object: ``calls`` and ``errors`` of each method since the last line, or a
``problem``.
"""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgpack
import msgspec

from tests.soak.airsim_calls import Call, CallModel

HOST: Final = "127.0.0.1"
CONNECTED: Final = "connected"
"""Line that a program prints once it has its connection."""
_ANSWER_S: Final = 120.0
"""Longest wait for an answer on a busy machine; the longest move lasts three seconds."""
_MOST_IN_FLIGHT: Final = 6
_MEAN_PAUSE_S: Final = 0.02
_REPORT_S: Final = 1.0


class AirsimPeer:
    """A connection with several requests under way."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=_ANSWER_S)
        self._unpacker = msgpack.Unpacker(raw=False, max_buffer_size=1 << 28)
        self._number = 0

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return a result. Raises AssertionError: the call failed."""
        ((error, result),) = self.answers([(method, arguments)])
        assert error is None, f"{method}: {error}"
        return result

    def answers(self, calls: list[tuple[str, Any]]) -> list[tuple[str | None, Any]]:
        """Send requests at once; return errors and results in their order."""
        first = self._number
        requests = [(0, first + i, name, arguments) for i, (name, arguments) in enumerate(calls)]
        self._number = (first + len(calls)) % (1 << 31)
        self._socket.sendall(b"".join(map(msgspec.msgpack.encode, requests)))
        found: dict[int, tuple[str | None, Any]] = {}
        while len(found) < len(calls):
            for kind, number, error, result in self._unpacker:
                assert kind == 1 and first <= number < first + len(calls) and number not in found
                found[number] = error, result
            if len(found) < len(calls):
                data = self._socket.recv(1 << 20)
                assert data, (
                    f"the server closed the connection during {[name for name, _ in calls]}"
                )
                self._unpacker.feed(data)
        return [found[first + i] for i in range(len(calls))]


class RandomProgram:
    """Calls the server at random and judges the answers; appends to its log."""

    def __init__(self, port: int, seed: int, kind: str, log: Path) -> None:
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._random = random.Random(seed)
        self._peer = AirsimPeer(port)
        print(CONNECTED, flush=True)
        vehicles, assets = self._peer.ask("listVehicles"), self._peer.ask("simListAssets")
        self._model = CallModel(self._random, kind, vehicles, assets, str(log.parent))
        self._calls: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._reported_s = time.monotonic()

    def run(self) -> None:
        """Call until something ends the process."""
        while True:
            calls = [self._model.draw() for _ in range(self._random.randint(1, _MOST_IN_FLIGHT))]
            try:
                answers = self._peer.answers([(call.name, call.arguments) for call in calls])
            except (OSError, AssertionError) as exc:
                self._write({"problem": f"{[call.name for call in calls]}: {exc!r}"})
                sys.exit(1)
            for call, (error, result) in zip(calls, answers, strict=True):
                self._judge(call, error, result)
            if time.monotonic() - self._reported_s > _REPORT_S:
                self._report()
            time.sleep(self._random.expovariate(1.0 / _MEAN_PAUSE_S))

    def _judge(self, call: Call, error: str | None, result: Any) -> None:
        self._calls[call.name] += 1
        self._errors[call.name] += error is not None
        if problem := call.problem(error, result):
            self._write({"problem": f"{call.name}{tuple(call.arguments)!r:.300}: {problem}"})

    def _report(self) -> None:
        self._write({"calls": self._calls, "errors": self._errors})
        self._calls.clear()
        self._errors.clear()
        self._reported_s = time.monotonic()

    def _write(self, entry: dict[str, Any]) -> None:
        """Append a line at once, so that a kill leaves whole lines."""
        os.write(self._log, json.dumps(entry).encode() + b"\n")


if __name__ == "__main__":
    RandomProgram(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])).run()
