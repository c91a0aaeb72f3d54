"""Files of AirSim's programs: one folder, and no way out of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vil_simulation.airsim.program_files import ProgramFiles


def files(tmp_path: Path) -> ProgramFiles:
    (tmp_path / "other").mkdir()
    return ProgramFiles(tmp_path / "files")


def test_files_go_into_the_folder_by_relative_and_absolute_names(tmp_path: Path) -> None:
    made = files(tmp_path)
    made.write("a.binvox", b"1")
    made.write(str(tmp_path / "files" / "b.binvox"), b"2")
    made.write("a.binvox", b"3")
    assert {path.name: path.read_bytes() for path in made.folder.iterdir()} == {
        "a.binvox": b"3",
        "b.binvox": b"2",
    }


@pytest.mark.parametrize(
    "name", ["../other/a", "/etc/a", "b/../../a", "", ".", "..", "other/../..", "\0"]
)
def test_names_that_lead_out_are_refused_with_the_cure(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        ValueError, match=r"leads out of .*airsim.folder|cannot be the name|Is a directory"
    ):
        try:
            files(tmp_path).write(name, b"")
        except IsADirectoryError as exc:
            raise ValueError(str(exc)) from None
    assert not list((tmp_path / "other").iterdir())


def test_links_do_not_lead_out(tmp_path: Path) -> None:
    made = files(tmp_path)
    made.write("first", b"")
    target = tmp_path / "other" / "held"
    target.write_bytes(b"held")
    (made.folder / "file").symlink_to(target)
    (made.folder / "dangling").symlink_to(tmp_path / "other" / "new")
    (made.folder / "folder").symlink_to(tmp_path / "other")
    for name in ("file", "dangling"):
        with pytest.raises(OSError, match="symbolic links"):
            made.write(name, b"changed")
    with pytest.raises(ValueError, match="leads out of"):
        made.write("folder/held", b"changed")
    assert target.read_bytes() == b"held" and not (tmp_path / "other" / "new").exists()


def test_a_pipe_in_the_folder_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    made = files(tmp_path)
    made.write("first", b"")
    os.mkfifo(made.folder / "pipe")
    with pytest.raises(OSError, match="No such device or address"):
        made.write("pipe", b"for nobody")


def test_a_folder_that_is_a_link_is_the_folder_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    ProgramFiles(tmp_path / "link").write(str(tmp_path / "link" / "a"), b"1")
    assert (tmp_path / "real" / "a").read_bytes() == b"1"
