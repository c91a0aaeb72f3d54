"""The folder of recordings.

No links are followed, and a crafted file costs no more than a real one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from mcap.opcode import Opcode

from tests.support.record import record, some_events
from vil_bridge.recording.reader import Recording
from vil_bridge.runtime.output_folder import open_in
from vil_bridge.services.recording.service import _MOST_RECORDS, _stored


def test_links_folders_and_other_places_are_not_opened(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "recordings"
    secret.write_bytes(b"secret")
    folder.mkdir()
    (folder / "link.mcap").symlink_to(secret)
    (folder / "folder.mcap").mkdir()
    (folder / "good.mcap").write_bytes(b"good")
    for name in ("link.mcap", "folder.mcap", "none.mcap", "a\0b", "a" * 300):
        with pytest.raises(OSError):
            open_in(folder, name)
    with open_in(folder, "good.mcap") as file:
        assert file.read() == b"good"


def test_times_of_a_long_recording_come_from_its_summary(tmp_path: Path) -> None:
    path = tmp_path / "flight.mcap"
    record(path, some_events(200))
    with Recording(path) as whole, Recording(path, most_records=6) as brief:
        assert whole.duration_s > 0.0
        assert (brief.duration_s, brief.truncated) == (whole.duration_s, False)


@pytest.mark.parametrize(("ahead", "found"), [(9_999, True), (10_000, False)])
def test_a_summary_is_looked_through_for_10_000_records(
    tmp_path: Path, ahead: int, found: bool
) -> None:
    path = tmp_path / "flight.mcap"
    record(path, some_events(200))
    whole = path.read_bytes()
    place = int.from_bytes(whole[-28:-20], "little")
    while whole[place] != Opcode.STATISTICS:
        place += 9 + int.from_bytes(whole[place + 1 : place + 9], "little")
    end = whole[-37:-28] + place.to_bytes(8, "little") + whole[-20:]
    path.write_bytes(whole[:place] + (b"\x20" + bytes(8)) * ahead + whole[place:-37] + end)
    with Recording(path, most_records=6) as brief:
        assert (brief.truncated, brief.duration_s > 0.0) == (not found, found)


def test_a_file_of_empty_records_is_listed_by_a_few_of_them(tmp_path: Path) -> None:
    path = tmp_path / "flight.mcap"
    record(path, some_events(10))
    whole = path.read_bytes()
    head = 8  # the magic; then the header and two records of metadata
    for _ in range(3):
        head += 9 + int.from_bytes(whole[head + 1 : head + 9], "little")
    path.write_bytes(whole[:head] + (b"\x20" + bytes(8)) * (10 * _MOST_RECORDS))
    read = 0

    class Counting:
        def __init__(self) -> None:
            self._file = path.open("rb")

        def __getattr__(self, name: str) -> object:
            nonlocal read
            read += name == "read"
            return getattr(self._file, name)

    with Recording(path, Counting(), _MOST_RECORDS) as recording:  # type: ignore[arg-type]
        assert recording.truncated and recording.duration_s == 0.0
    assert read <= 3 * _MOST_RECORDS
    facts = path.stat()
    assert _stored(path, facts.st_size, facts.st_mtime_ns).duration_s is None
    path.write_bytes(whole[:-28] + b"\xff" * 8 + whole[-20:])  # a summary that stands nowhere
    with Recording(path, most_records=4) as recording:
        assert recording.truncated
