"""A real bridge under attack.

The pictures that the vehicle gets during it and next to a harmless process.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tests.attacks.attack import Attack, Command, Target, program
from tests.attacks.verdict import Round, Verdict, judge_rate
from tests.soak.patient import PatientRig
from tests.support.common import wait_until
from tests.support.harness import trouble
from tests.support.programs import VIL_BRIDGE, Program
from vil_bridge.client import Receiver
from vil_bridge.runtime.access_tokens import Role, read_token
from vil_simulation.demo.child_processes import free_ports

__all__ = ["AttackedBridge", "Configure", "carry_out"]

Configure = Callable[[dict[str, Any], Path], None]

CAMERA: Final = "front"
START_S: Final = 60.0
_MEASURED_AT_MOST: Final = 4
COUNTED_WITHIN_S: Final = 3.0
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class AttackedBridge(PatientRig):
    """A bridge with a simulated drone, a renderer that draws noise, and an onboard client in this
    process.

    Processes: ``daemon`` and ``renderer``. The configuration is the standard one of
    :func:`_standard`, changed by an attack's ``configure``.

    Attributes:
        federation_port: TCP port of ``federation.zmq``.
    """

    def __init__(self, folder: Path, configure: Configure | None = None) -> None:
        """Choose ports and write the configuration; nothing is started.

        Args:
            folder: an empty one.
            configure: changes the standard configuration.
        """
        self.federation_port = free_ports(1, socket.SOCK_STREAM)[0]
        self._configure = configure
        self._received: list[float] = []
        self._ended = threading.Event()
        super().__init__(folder)
        self._onboard = threading.Thread(target=self._receive, name="onboard client", daemon=True)

    def _all_commands(self, preset: Path, overrides: Mapping[str, object]) -> dict[str, list[str]]:
        assert not overrides
        preset.unlink()
        config = self._standard()
        if self._configure is not None:
            self._configure(config, self.folder)
        written = self.folder / "attacked.yaml"
        written.write_text(yaml.safe_dump(config))
        ports = [str(self.pose_port), str(self.image_port)]
        return {
            "daemon": ["env", f"PYTHONPATH={self._path()}", *VIL_BRIDGE, "run", str(written)],
            "renderer": [sys.executable, "-m", "tests.support.harness", *ports],
        }

    def _path(self) -> str:
        """Return where the daemon finds modules.

        A plug-in that ``configure`` wrote into the folder, too.
        """
        return os.pathsep.join(filter(None, [str(self.folder), os.environ.get("PYTHONPATH")]))

    def _standard(self) -> dict[str, Any]:
        circle = {"kind": "circle", "radius_m": 1.0, "speed_mps": 1.0}
        drone = {"model": "flightgoggles", "p_m": [0.0, 0.0, 1.5], "autopilot": circle}
        return {
            "version": 1,
            "name": "attacked",
            "rooms": {"hall": {}},
            "sources": {
                "sim": {
                    "type": "simulated",
                    "room": "hall",
                    "rate_hz": 100,
                    "vehicles": {"drone": drone},
                }
            },
            "actors": {"drone": {"kind": "vehicle", "source": "sim", "subject": "drone"}},
            "renderers": {
                "hall": {
                    "type": "flightgoggles",
                    "pose_port": self.pose_port,
                    "image_port": self.image_port,
                }
            },
            "cameras": {
                CAMERA: {
                    "actor": "drone",
                    "renderer": "hall",
                    "width_px": 160,
                    "height_px": 120,
                    "rate_hz": 30,
                }
            },
            "stream": {"bind": self.endpoint},
            "federation": {
                "site": "attacked",
                "zmq": {"bind": f"tcp://127.0.0.1:{self.federation_port}"},
            },
            "http": {"port": self.http_port},
            "record": {"folder": str(self.folder / "recordings")},
        }

    def start_all(self) -> None:
        """Start everything and wait until the onboard client gets pictures."""
        self.start("renderer", "daemon")
        for name in ("renderer", "daemon"):
            self.await_ready(name)
        self._onboard.start()
        wait_until(lambda: self._received and not self.trouble(), START_S, self.trouble)

    def trouble(self) -> list[str]:
        """Return what does not work; empty = nothing.

        Parts called ``attacker`` work during an attack only.
        """
        try:
            return [words for words in trouble(self.get()) if not words.startswith("attacker: ")]
        except OSError as exc:
            return [f"no answer: {exc}"]

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        if self._onboard.is_alive():
            self._onboard.join()
        super().__exit__(*exc)

    def _receive(self) -> None:
        with Receiver(self.endpoint, CAMERA, name="onboard", **self.reader_options()) as receiver:
            while not self._ended.is_set():
                if receiver.next(0.1) is not None:
                    self._received.append(time.monotonic())

    def headers(self) -> dict[str, str]:
        """Return the token of the role ``view``, where ``configure`` wrote a file ``tokens``."""
        tokens = self.folder / "tokens"
        return (
            {"Authorization": f"Bearer {read_token(tokens, Role.VIEW)}"} if tokens.exists() else {}
        )

    def reader_options(self) -> dict[str, Any]:
        """Return further arguments of the onboard client: its keys, where ``configure`` wrote some.

        A key pair of the reader in the folder is ``onboard.key_secret``, the bridge's public key
        ``bridge.key``.
        """
        secret, server = self.folder / "onboard.key_secret", self.folder / "bridge.key"
        return {"secret_key": secret, "server_key": server} if secret.exists() else {}

    def pictures_since(self, begun_s: float) -> int:
        """Return how many pictures the onboard client received since a time of
        ``time.monotonic``.
        """
        return sum(t_s >= begun_s for t_s in tuple(self._received))


# --- one attack -----------------------------------------------------------------------------------


def carry_out(
    name: str, attack: Attack, rig: AttackedBridge, rounds: int, seconds: float
) -> Verdict:
    """Run an attack on a started bridge, attack and reference in turns.

    A rate below the limit is measured for as many rounds again, three times at most, before it
    counts, since the machine may be busy with other work in one phase and not in the other.

    Args:
        name: of the attack.
        attack: its description.
        rig: the bridge, at full work.
        rounds: how often to attack.
        seconds: length of each phase.
    """
    before, pid = rig.get(), rig.pid("daemon")
    done: list[Round] = []
    problems: list[str] = []
    counted, slow = "", list[str]()
    for _ in range(_MEASURED_AT_MOST):
        for _ in range(rounds):
            done.append(_round(attack, rig, seconds, problems))
            problems += _alive(rig, pid)
            counted = counted or ("" if problems else _counted(attack, before, rig))
            if problems:
                return Verdict(name, attack.summary, done, counted, problems)
        slow = judge_rate(done, attack.least_share) if attack.judges_rate else []
        if not slow:
            break
    unseen = [] if counted else ["the status neither counts nor names the attacker"]
    return Verdict(name, attack.summary, done, counted, [*slow, *unseen])


def _round(attack: Attack, rig: AttackedBridge, seconds: float, problems: list[str]) -> Round:
    with _running(attack.commands(rig), problems) as attackers:
        attack_s, shown, spent_s = _phase(rig, attackers, seconds, attack.during, problems)
    shares = [each / attack_s for each in spent_s if each > 0.0]
    with _running([program("tests.attacks.burn", f"{s:.4f}") for s in shares], problems) as burners:
        reference_s, reference_shown, burnt_s = _phase(rig, burners, seconds, None, problems)
    return Round(attack_s, reference_s, shown, reference_shown, sum(spent_s), sum(burnt_s))


def _phase(
    rig: AttackedBridge,
    processes: Sequence[Program],
    seconds: float,
    during: Callable[[Target], list[str]] | None,
    problems: list[str],
) -> tuple[float, int, list[float]]:
    """Return the phase's length, its pictures and the processor time that each process used in
    it.
    """
    at_first = [_cpu_s(p.pid) for p in processes]
    begun_s = time.monotonic()
    time.sleep(0.5 * seconds)
    if during is not None:
        try:
            problems += during(rig)
        except OSError as exc:
            problems.append(f"no answer during the attack: {exc}")
    time.sleep(max(0.0, begun_s + seconds - time.monotonic()))
    spent_s = [_cpu_s(p.pid) - first for p, first in zip(processes, at_first, strict=True)]
    return time.monotonic() - begun_s, rig.pictures_since(begun_s), spent_s


@contextlib.contextmanager
def _running(commands: Sequence[Command], problems: list[str]) -> Iterator[list[Program]]:
    """Run processes until the block ends, from the moment on at which all have said ``ready``."""
    processes = [Program(*command) for command in commands]
    try:
        for process in processes:
            process.await_text("ready")
        yield processes
        problems += [
            f"an attacker failed with code {p.returncode}: {p.text()[-1000:]}"
            for p in processes
            if p.poll()
        ]
    finally:
        for process in processes:
            process.kill()


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process that was not waited for yet, ended or not."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICKS_PER_S


def _alive(rig: AttackedBridge, pid: int) -> list[str]:
    """Return how the bridge died; empty = it lives."""
    if not rig.alive("daemon") or rig.pid("daemon") != pid:
        return [f"the bridge's process ended: {rig.log('daemon')[-1500:]}"]
    try:
        rig.rest("GET", "healthz")
    except OSError as exc:
        return [f"/healthz does not answer: {exc}"]
    return []


def _counted(attack: Attack, before: Mapping[str, Any], rig: AttackedBridge) -> str:
    deadline_s = time.monotonic() + COUNTED_WITHIN_S
    while not (found := attack.counted(before, rig.get())) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    return found
