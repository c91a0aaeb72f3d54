"""The ways of tests to start programs.

What is said, how they end, and that none outlives its test run.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.common import wait_until
from tests.support.programs import Program

pytestmark = pytest.mark.process

PYTHON = (sys.executable, "-c")
STUBBORN = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', "
    "flush=True); signal.pause()"
)


def test_a_program_that_ends_too_early_shows_its_last_words() -> None:
    with (
        Program(*PYTHON, "import sys; sys.exit('no licence')", split=True) as program,
        pytest.raises(AssertionError, match=r"(?s)not running, ended with 1:.*no licence"),
    ):
        program.await_text("running")


def test_a_log_goes_on_where_the_last_program_left_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for word in ("one", "two"):
        with Program(*PYTHON, f"print('{word}')", log=log) as program:
            assert program.wait(60.0) == 0
        assert program.text() == f"{word}\n"
    assert log.read_text() == "one\ntwo\n"


def test_the_end_of_the_block_asks_first_and_then_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    with Program(*PYTHON, "import signal; signal.pause()") as polite:
        pass
    assert polite.returncode == -signal.SIGTERM
    monkeypatch.setattr("tests.support.programs.PATIENCE_S", 0.1)
    with Program(*PYTHON, STUBBORN) as deaf:
        deaf.await_text("deaf")
        with pytest.raises(subprocess.TimeoutExpired) as late:
            deaf.end(limit_s=0.1)
    assert deaf.returncode == -signal.SIGKILL
    assert re.match(r"deaf\n+its threads wait in: python", late.value.__notes__[0])


def test_no_program_outlives_a_killed_test_run() -> None:
    code = (
        "from tests.support.programs import Program; child = Program('sh', '-c', 'echo "
        "up; exec sleep 600');"
        "child.await_text('up'); print(child.pid, flush=True); input()"
    )
    with Program(*PYTHON, code, stdin=subprocess.PIPE) as run:
        pid = int(run.await_text(r"(\d+)\n")[1])
        run.kill()
    wait_until(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("work", "waits"), [("time.sleep(1.0)", True), ("sum(range(20_000_000))", False)]
)
def test_an_end_tells_how_long_the_program_waited(work: str, waits: bool) -> None:
    code = (
        f"import signal, sys, time; signal.signal(15, lambda *_: ({work}, sys.exit(3))); "
        "print('up', flush=True)"
    )
    with Program(sys.executable, "-c", f"{code}; signal.pause()") as program:
        program.await_text("up")
        ended, waited_s = program.end_waiting()
    assert ended == 3 and (waited_s > 0.2) is waits
