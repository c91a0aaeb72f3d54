"""The link to a pseudo-terminal: one owner at a time, and a killed one owns nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.programs import Program
from vil_adapters.emulation.pseudo_terminal import PseudoTerminal

# As on a system without /proc, where the link leads to the terminal itself.
OWNER = """
import os, sys, time
from pathlib import Path
from vil_adapters.emulation.pseudo_terminal import PseudoTerminal
os.getpid = lambda: 0
terminal = PseudoTerminal(Path(sys.argv[1]))
print("linked", flush=True)
time.sleep(600)
"""


def killed_owner(link: Path) -> None:
    """Leave what a killed lab leaves; the kernel gives its terminal's number away."""
    with Program(sys.executable, "-c", OWNER, link) as owner:
        owner.await_text("linked")
        with pytest.raises(
            FileExistsError,
            match=rf"is in use: it leads to {link.readlink()}\. Stop the other program",
        ):
            PseudoTerminal(link)
        owner.kill()


@pytest.mark.process
def test_the_link_of_a_killed_process_is_replaced_though_its_terminal_is_anothers(
    tmp_path: Path,
) -> None:
    link = tmp_path / "imu"
    killed_owner(link)
    others: list[int] = []
    try:
        while not link.exists():  # the next terminals get the lowest free numbers
            others.extend(os.openpty())
            assert len(others) < 200
        terminal = PseudoTerminal(link)
        assert link.readlink() == Path(f"/proc/{os.getpid()}/fd") / link.readlink().name
        with pytest.raises(FileExistsError, match=r"is in use: it leads to"):
            PseudoTerminal(link)
        terminal.close()
        assert list(tmp_path.iterdir()) == [], "a clean end leaves neither link nor lock"
    finally:
        for fd in others:
            os.close(fd)


def test_a_link_that_another_program_made_is_not_taken(tmp_path: Path) -> None:
    link = tmp_path / "imu"
    link.symlink_to("/dev/null")
    with pytest.raises(
        FileExistsError, match=r"is in use: it leads to /dev/null\. Stop the other program"
    ):
        PseudoTerminal(link)
    assert list(tmp_path.iterdir()) == [link]


def test_a_link_that_was_deleted_under_its_owner_is_still_in_use(tmp_path: Path) -> None:
    link = tmp_path / "imu"
    terminal = PseudoTerminal(link)
    link.unlink()
    with pytest.raises(FileExistsError, match=r"is in use: .*\.imu\.lock is locked"):
        PseudoTerminal(link)
    terminal.close()
    PseudoTerminal(link).close()
    assert list(tmp_path.iterdir()) == []
