"""Fly simulated vehicles of a running bridge from Python, over the stream's control channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import zmq

from vil_bridge.protocols.zmq.curve import read_public_key, read_secret_key
from vil_bridge.runtime.access_tokens import Role, read_token

_ENCODER: Final = msgspec.json.Encoder()


class VehicleClient:
    """Commands and states of simulated vehicles; for one thread.

    Args:
        endpoint: the bridge's control channel, ``tcp://host:port``.
        timeout_s: patience with its answers.
        server_key: the bridge's public key file, where it asks for keys. secret_key: this client's
            own.
        token_file: with a token of the role ``control``, where the bridge has ``http.token_file``.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        timeout_s: float = 1.0,
        server_key: Path | None = None,
        secret_key: Path | None = None,
        token_file: Path | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._last_id = 0
        self._access = "" if token_file is None else read_token(token_file, Role.CONTROL)
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        if server_key is not None and secret_key is not None:
            mine = read_secret_key(secret_key)
            self._socket.setsockopt(zmq.CURVE_SERVERKEY, read_public_key(server_key))
            self._socket.setsockopt(zmq.CURVE_PUBLICKEY, mine.public)
            self._socket.setsockopt(zmq.CURVE_SECRETKEY, mine.secret)
        self._socket.connect(endpoint)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def names(self) -> list[str]:
        """All simulated vehicles. Raises TimeoutError: no answer."""
        found: list[str] = self._ask("vehicles", {})
        return found

    def state(self, subject: str) -> dict[str, Any]:
        """Return the state of a vehicle, with the fields of
        :class:`~vil_bridge.interfaces.vehicle_commands.VehicleState`.

        Raises:
            ValueError: no such vehicle. TimeoutError: no answer.
        """
        found: dict[str, Any] = self._ask("vehicle_state", {"subject": subject})
        return found

    def fly(
        self,
        subject: str,
        mode: str,
        values: Sequence[float] | Mapping[str, float | Sequence[float]],
        t_ns: int | None = None,
    ) -> None:
        """Command values in a mode, from a bridge time on; None = now.

        Raises:
            ValueError: refused; says why. TimeoutError: no answer.
        """
        self._ask(
            "vehicle_command", {"subject": subject, "mode": mode, "values": values, "t_ns": t_ns}
        )

    def arm(self, subject: str, armed: bool = True) -> None:
        """Let the motors obey, or stop them. Raises as :meth:`fly`."""
        self._ask("vehicle_command", {"subject": subject, "action": "arm" if armed else "disarm"})

    def reset(self, subject: str) -> None:
        """Put it back to its start. Raises as :meth:`fly`."""
        self._ask("vehicle_command", {"subject": subject, "action": "reset"})

    def close(self) -> None:
        """Release the socket."""
        self._socket.close()

    def _ask(self, name: str, args: Mapping[str, Any]) -> Any:
        self._last_id += 1
        command = {
            "type": "command",
            "id": self._last_id,
            "name": name,
            "args": args,
            "access": self._access,
        }
        self._socket.send(_ENCODER.encode(command))
        while self._socket.poll(round(1e3 * self._timeout_s)):
            answer = msgspec.json.decode(self._socket.recv())
            # A late one answers an older question.
            if isinstance(answer, dict) and answer.get("id") == self._last_id:
                if not answer.get("ok"):
                    raise ValueError(str(answer.get("error")))
                return answer.get("value")
        raise TimeoutError(
            f"no answer from {self._endpoint} within {self._timeout_s:g} s: is `vil-bridge run` up?"
        )
