"""Geometry of the embedded renderer's scene for pages: a GLB, and the scene's gates.

The renderer says which shipped scene it draws; the configuration may name another one. A child
process makes the geometry of that scene once, at low priority; other programs' scenes are not to be
had.
"""

from __future__ import annotations

import functools
import logging
import re
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from vil_bridge.core.threads import ContextThread
from vil_bridge.interfaces.ports import RendererClient
from vil_bridge.web.schemas.lighting import LampView
from vil_bridge.web.schemas.scene import GateView

logger = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[a-z0-9_]{1,32}")
_HEADER: Final = struct.Struct("<4sIIII")
_PATIENCE_S: Final = 600.0
_AGAIN_S: Final = 60.0
_MOST_NAMES: Final = 16
_MAKER: Final = (
    "nice",
    "-n",
    "5",
    sys.executable,
    "-m",
    "vil_renderer.embedded.servers.browser_scene",
)


_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
_LAMPS: Final = msgspec.json.Decoder(dict[_Name, tuple[float, float, float, float, float, float]])


class _Extras(msgspec.Struct):
    gates: list[GateView] = []


class _Document(msgspec.Struct):
    extras: _Extras


@dataclass(frozen=True, slots=True)
class SceneModel:
    """A scene's geometry.

    Attributes:
        glb: the file, our axes turned to glTF's by its root node.
        gates: in the world.
    """

    name: str
    glb: bytes
    gates: tuple[GateView, ...]

    @classmethod
    def read(cls, name: str, glb: bytes) -> SceneModel:
        """Read a file of ours.

        Raises:
            ValueError: it is not one.
        """
        if len(glb) < _HEADER.size:
            raise ValueError(f"{len(glb)} bytes are no GLB")
        magic, version, _, length, _ = _HEADER.unpack_from(glb)
        if (magic, version) != (b"glTF", 2):
            raise ValueError("not a GLB of version 2")
        document = msgspec.json.decode(glb[_HEADER.size : _HEADER.size + length], type=_Document)
        return cls(name, glb, tuple(document.extras.gates))


def shipped_scene(renderers: Mapping[str, RendererClient]) -> str | None:
    """Return the name of the shipped scene that a renderer reports, None while none does."""
    for client in renderers.values():
        info: Mapping[str, Any] = client.status.report().facts.get("info", {})
        name = info.get("shipped_scene")
        if isinstance(name, str) and _NAME.fullmatch(name):
            return name
    return None


def scene_lamps(renderers: Mapping[str, RendererClient]) -> dict[str, LampView] | None:
    """Return the lamps of the renderers' scenes by name.

    None while a renderer does not list its own.
    """
    known: dict[str, LampView] = {}
    for client in renderers.values():
        text = client.status.report().facts.get("info", {}).get("lamps")
        lamps = _lamps_of(text) if isinstance(text, str) else None
        if lamps is None:
            return None
        known |= lamps
    return known if renderers else None


@functools.lru_cache(maxsize=16)
def _lamps_of(text: str) -> dict[str, LampView] | None:
    try:
        listed = _LAMPS.decode(text)
    except msgspec.MsgspecError:
        return None
    return {name: LampView((x, y, z), (r, g, b)) for name, (x, y, z, r, g, b) in listed.items()}


class SceneGeometryCache:
    """The model of the scene that is drawn now; each is made once, and only the newest is stored.

    Args:
        wanted: name of the shipped scene, None = none; called in the thread that asks.
        own: name or file of the scene that is shown instead; None = none.
    """

    def __init__(self, wanted: Callable[[], str | None], own: str | None = None) -> None:
        self._wanted = wanted if own is None else lambda: Path(own).stem
        self._own = own
        self._lock = threading.Lock()
        self._asked: set[str] = set()
        self._model: SceneModel | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._not_before_s = 0.0
        self._closed = False

    def newest(self) -> SceneModel | None:
        """Return the model, None until it is made or without one; the first call starts the making.

        Any thread.
        """
        name = self._wanted()
        if name is None:
            return None
        with self._lock:
            if self._model is not None and self._model.name == name:
                return self._model
            if name not in self._asked and self._child is None and len(self._asked) < _MOST_NAMES:
                self._start(name)
        return None

    def glb(self) -> bytes | None:
        """Return the newest as a file. Any thread."""
        model = self.newest()
        return None if model is None else model.glb

    def close(self) -> None:
        """End the child under way."""
        with self._lock:
            self._closed = True
            child = self._child
        if child is not None:
            child.kill()

    def _start(self, name: str) -> None:
        if self._closed or time.monotonic() < self._not_before_s:
            return
        scene = (name,) if self._own is None else ("--scene", self._own)
        try:
            # Our own program, and a name that was checked.
            self._child = subprocess.Popen(  # noqa: S603
                [*_MAKER, *scene],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as exc:  # too many files are open, or there is no `nice`
            self._not_before_s = time.monotonic() + _AGAIN_S
            logger.warning("pages show no geometry of scene %s for %.0f s: %s", name, _AGAIN_S, exc)
            return
        self._asked.add(name)
        ContextThread(
            target=self._make, args=(name, self._child), name="scene-model", daemon=True
        ).start()

    def _make(self, name: str, child: subprocess.Popen[bytes]) -> None:
        model = None
        try:
            model = SceneModel.read(name, _output(child))
        except (ValueError, msgspec.DecodeError) as exc:
            asked_for = self._own is not None and not self._closed
            level = logging.WARNING if asked_for else logging.INFO
            logger.log(level, "pages show no geometry of scene %s: %s", name, exc)
        with self._lock:
            self._child = None
            if model is not None:
                self._model = model
                self._asked = {name}  # another scene may come back later


def _output(child: subprocess.Popen[bytes]) -> bytes:
    """Return the child's output.

    Raises:
        ValueError: it failed, or took too long.
    """
    try:
        written, said = child.communicate(timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise ValueError(f"not made within {_PATIENCE_S:.0f} s") from None
    if child.returncode:
        lines = said.decode(errors="replace").splitlines() or [f"exit code {child.returncode}"]
        raise ValueError(lines[-1])
    return written
