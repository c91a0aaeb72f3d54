"""Processes of autopilots' programs.

Real ones, which end, leave others behind, or cannot be started.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.common import wait_until
from tests.support.stubborn_program import STUBBORN, is_gone, most_at_once, numbers_in
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import SourceUnavailable
from vil_simulation.source import program_process
from vil_simulation.source.program_process import ProgramProcess, end_programs

pytestmark = pytest.mark.process

SLEEPER = "import time; time.sleep(600)"
_IGNORES = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
DEAF = f"{_IGNORES}; print('up', flush=True); {SLEEPER}"


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


def parent_of(child: str, then: str) -> tuple[str, ...]:
    """Return a program that starts another, notes its pid and goes on."""
    return python(
        "import subprocess, sys, time\n"
        f"one = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "open('child', 'a').write(f'{one.pid}\\n')\n"
        f"{then}"
    )


@contextmanager
def program(folder: Path, command: tuple[str, ...]) -> Iterator[ProgramProcess]:
    made = ProgramProcess("quad", command, folder)
    made.start()
    try:
        yield made
    finally:
        end_programs([made])


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="ascii").splitlines() if file.exists() else []


def checked(made: ProgramProcess, reached: Callable[[], bool]) -> None:
    def reached_now() -> bool:
        made.check()
        return reached()

    wait_until(reached_now)


def test_what_a_program_started_ends_with_it(tmp_path: Path) -> None:
    with program(tmp_path, parent_of(DEAF, SLEEPER)):
        wait_until(lambda: "up" in lines(tmp_path / "output.log"))
    (child,) = lines(tmp_path / "child")
    wait_until(lambda: is_gone(int(child)))


def test_programs_that_ignore_the_request_to_end_share_one_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine lets a program wait.
    monkeypatch.setattr(program_process, "_PATIENCE_NS", 3 * NS_PER_S)
    made = [ProgramProcess(f"quad_{i}", python(STUBBORN), tmp_path / str(i)) for i in range(6)]
    outputs = [tmp_path / str(i) / "output.log" for i in range(6)]
    for one in made:
        one.start()
    wait_until(lambda: all(map(numbers_in, outputs)))
    end_programs(made)
    ends = [numbers_in(output) for output in outputs]
    assert all(is_gone(pid) for pid, *_ in ends)
    assert most_at_once([times for _, *times in ends]) >= len(made) - 2


def test_what_a_program_left_behind_ends_before_it_starts_again(tmp_path: Path) -> None:
    with program(tmp_path, parent_of(SLEEPER, "raise SystemExit(3)")) as made:
        checked(made, lambda: len(lines(tmp_path / "child")) >= 2)
        first = lines(tmp_path / "child")[0]
        wait_until(lambda: is_gone(int(first)))


def test_a_program_that_is_missing_for_a_while_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    binary = tmp_path / "px4"
    binary.write_text("#!/bin/sh\necho up\n", encoding="ascii")
    binary.chmod(0o755)
    with program(tmp_path / "run", (str(binary),)) as made, caplog.at_level(logging.WARNING):
        wait_until(lambda: lines(tmp_path / "run" / "output.log") == ["up"])
        script = binary.read_bytes()
        binary.unlink()  # compiled again
        checked(
            made, lambda: "cannot be started problem='No such file or directory'" in caplog.text
        )
        binary.write_bytes(script)
        binary.chmod(0o755)
        checked(made, lambda: lines(tmp_path / "run" / "output.log") == ["up"] * 2)
    assert "ended code=0 again_in_s=1.0" in caplog.text


def test_pauses_before_another_start_double_up_to_ten_seconds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed_ns = 0
    monkeypatch.setattr(program_process, "machine_ns", lambda: passed_ns)
    made = ProgramProcess("quad", ("false",), tmp_path)
    made.start()
    with caplog.at_level(logging.WARNING):
        while len(caplog.messages) < 6:
            seen = len(caplog.messages)
            made.check()
            passed_ns += 10_000_000_000 if len(caplog.messages) > seen else 110_000_000
            time.sleep(0.05)
    pauses = [text.partition("again_in_s=")[2].split()[0] for text in caplog.messages]
    assert pauses == ["1.0", "2.0", "4.0", "8.0", "10.0", "10.0"]


def test_a_long_output_becomes_the_one_before(tmp_path: Path) -> None:
    output = tmp_path / "output.log"
    with output.open("wb") as file:
        file.truncate((1 << 24) + 1)
    with program(tmp_path, python("print('up')")):
        wait_until(lambda: lines(output) == ["up"])
    assert (tmp_path / "output.log.1").stat().st_size == (1 << 24) + 1


def test_a_program_has_no_real_time_priority_and_ends_with_its_starter(tmp_path: Path) -> None:
    """Also one that ignores the request to end: nobody else could end it then."""
    noted = f"import os; {_IGNORES}; print(os.getpid(), flush=True); {SLEEPER}"
    starter = (
        "from pathlib import Path\n"
        "from vil_simulation.source.program_process import ProgramProcess\n"
        f"made = ProgramProcess('quad', {python(noted)!r}, Path('run'))\n"
        f"made.start()\n{noted}\n"
    )
    with program(tmp_path, python(starter)):
        wait_until(
            lambda: (
                bool(lines(tmp_path / "run" / "output.log"))
                and bool(lines(tmp_path / "output.log"))
            )
        )
        (first,), (second,) = lines(tmp_path / "output.log"), lines(tmp_path / "run" / "output.log")
        assert os.sched_getscheduler(int(second)) == os.SCHED_OTHER
        assert os.getpgid(int(second)) == int(second), "of a group of its own"
        os.kill(int(first), signal.SIGKILL)
        wait_until(lambda: is_gone(int(second)))


def test_a_program_that_is_not_there_is_refused_with_its_cure(tmp_path: Path) -> None:
    with pytest.raises(
        SourceUnavailable,
        match=r"quad: cannot start '/none/px4' in .*: No such file.*autopilot\.command",
    ):
        ProgramProcess("quad", ("/none/px4",), tmp_path).start()


def test_its_environment_goes_behind_the_bridges_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PX4_SIM_MODEL", "iris")
    noted = (
        "import os; open('env', 'w').write(os.environ['PX4_SIM_MODEL'] + "
        "os.environ['PX4_PARAM_MC_YAWRATE_P'] + '\\n')"
    )
    environment = {"PX4_SIM_MODEL": "none_iris", "PX4_PARAM_MC_YAWRATE_P": "0.05"}
    made = ProgramProcess("quad", python(noted), tmp_path, environment)
    made.start()
    ends = 0
    try:
        while not ends:
            ends += made.check()
            time.sleep(0.01)
        assert not made.check(), "its end is reported once"
    finally:
        end_programs([made])
    assert lines(tmp_path / "env") == ["iris0.05"]
