"""LCM's own library as a reader, with the decoders that lcm-gen makes of our definitions."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import lcm
import pytest

from tests.support.common import ROOT

_LCM_GEN = Path(sys.executable).with_name("lcm-gen")
_TYPES = ROOT / "vil_bridge" / "outputs" / "lcm" / "types"


def decoders(folder: Path) -> ModuleType:
    """The reference decoders, generated into a folder."""
    if not _LCM_GEN.exists():
        pytest.skip("no lcm-gen; it comes with the lcm package")
    files = sorted(_TYPES.glob("*.lcm"))
    subprocess.run([_LCM_GEN, "--python", "--ppath", folder, *files], check=True, timeout=60.0)
    made = ModuleType("vil")
    for file in files:
        name = file.stem.removeprefix("vil_")
        spec = importlib.util.spec_from_file_location(name, folder / "vil" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        setattr(made, name, getattr(module, name))
    return made


class Heard:
    """Messages by channel, each decoded by the type whose fingerprint it has."""

    def __init__(self, types: ModuleType) -> None:
        self.url = f"udpm://239.255.76.67:{random.randint(20_000, 60_000)}?ttl=0"
        self.messages: dict[str, list[Any]] = defaultdict(list)
        made = [kind for kind in vars(types).values() if hasattr(kind, "_get_packed_fingerprint")]
        self._kinds = {kind._get_packed_fingerprint(): kind for kind in made}

    def take(self, channel: str, data: bytes) -> None:
        self.messages[channel].append(self._kinds[data[:8]].decode(data))


@contextmanager
def hearing(types: ModuleType) -> Iterator[Heard]:
    """LCM in a thread of its own."""
    heard, stop = Heard(types), threading.Event()
    try:
        receiver = lcm.LCM(heard.url)
    except RuntimeError:
        pytest.skip("no multicast here")
    receiver.subscribe("vil/.*", heard.take)

    def receive() -> None:
        while not stop.is_set():
            receiver.handle_timeout(50)

    thread = threading.Thread(target=receive)
    thread.start()
    try:
        yield heard
    finally:
        stop.set()
        thread.join()
