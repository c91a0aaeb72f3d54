"""A session on disk that ends early since its pictures do."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from pathlib import Path

import pytest

from tests.support.common import ROOT, wait_until
from tests.support.stream_rig import INFO, StreamRig, photo

pytestmark = pytest.mark.wire


@pytest.mark.parametrize("pictures", [True, False])
def test_a_session_ends_when_pictures_do_and_keeps_what_came(
    pictures: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(INFO, "rate_hz", 60.0)
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "vio"))
    save = importlib.import_module("save")
    monkeypatch.setattr(save, "SILENT_S", 2.0)
    silent, port = os.openpty()
    data = tmp_path / "mav0" / "cam0" / "data.csv"
    with StreamRig() as rig:
        options = ["--imu", os.ttyname(port), "--stream", "front:compensated", "--seconds", "1e6"]
        monkeypatch.setattr(sys, "argv", ["save.py", rig.endpoint, str(tmp_path), *options])
        thread = threading.Thread(target=save.main, daemon=True)
        thread.start()
        if pictures:
            with rig.playing(photo()):
                wait_until(lambda: data.is_file() and data.read_text().count(".png") > 1)
        wait_until(lambda: not thread.is_alive())
    for file in (silent, port):
        os.close(file)
    assert "ended early: no picture for 2 s" in capsys.readouterr().out
    rows = data.read_text().splitlines()[1:]
    assert len(rows) == len(list((tmp_path / "mav0" / "cam0" / "data").iterdir()))
    assert bool(rows) == pictures
