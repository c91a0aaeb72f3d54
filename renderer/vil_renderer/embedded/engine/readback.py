"""Transfer of pictures from OpenGL to memory.

On demand from llvmpipe, through mapped buffers from a GPU.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from vil_renderer.embedded.engine.devices import egl_library, gl_function, is_software
from vil_renderer.embedded.lru_cache import LruByteCache

if TYPE_CHECKING:
    import moderngl

_SCRATCH_BYTES: Final = 64 << 20
_RING_BYTES: Final = 512 << 20
_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "f1": np.dtype(np.uint8),
    "f4": np.dtype(np.float32),
    "u4": np.dtype(np.uint32),
}
_PIXEL_PACK_BUFFER: Final = 0x88EB
_MAP_BITS: Final = 0x0001 | 0x0002 | 0x0040 | 0x0080
"""GL_MAP_READ_BIT, GL_MAP_WRITE_BIT, GL_MAP_PERSISTENT_BIT and GL_MAP_COHERENT_BIT."""
_CLIENT_STORAGE: Final = 0x0200
_COMMANDS_COMPLETE: Final = 0x9117
_FLUSH_COMMANDS: Final = 0x0001
_FOREVER_NS: Final = (1 << 64) - 1

Pixels: TypeAlias = Callable[[], npt.NDArray[Any]]
"""Returns the pixels of an attachment, top row first; waits until they have been drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class Attachment:
    """One attachment of a framebuffer, and its array.

    Attributes:
        shape: of the array, (h, w) or (h, w, components). kind: moderngl's name of its element
            type.
        retained: the reader hands the array on; else it is scratch memory that the next reading
            uses again.
    """

    target: moderngl.Framebuffer
    index: int
    shape: tuple[int, ...]
    kind: str
    retained: bool

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type of the array."""
        return _DTYPES[self.kind]

    def read_into(self, memory: moderngl.Buffer | npt.NDArray[Any]) -> None:
        """Read it; into a buffer without waiting for the GPU."""
        components = self.shape[2] if len(self.shape) == 3 else 1
        self.target.read_into(
            memory, components=components, attachment=self.index, alignment=1, dtype=self.kind
        )


class Readback(Protocol):
    """Reader of attachments.

    Attributes:
        early: reading begins with :meth:`start`, and the framebuffer may be drawn to again at once.
            OpenGL drops the fourth byte of colours.
    """

    early: bool

    def start(self, source: Attachment) -> Pixels:
        """Return the pixels of an attachment."""
        ...

    def close(self) -> None:
        """Release the context and all its memory."""
        ...


def readback_for(ctx: moderngl.Context) -> Readback:
    """Return the fastest way to read this context's pictures; the context is current."""
    if (
        not is_software(str(ctx.info["GL_RENDERER"]))
        and (functions := _load_functions(ctx)) is not None
    ):
        return RingReadback(ctx, functions)
    return DirectReadback(ctx)


class DirectReadback:
    """Reader that reads when the pixels are asked for.

    Llvmpipe draws to the memory of the CPU already.
    """

    early = False

    def __init__(self, ctx: moderngl.Context) -> None:
        self._ctx = ctx
        # Memory that one reading after the other uses: new pages cost more.
        self._scratch: LruByteCache[tuple[object, ...], npt.NDArray[Any]]
        self._scratch = LruByteCache(_SCRATCH_BYTES, lambda pixels: pixels.nbytes)

    def start(self, source: Attachment) -> Pixels:
        """Return a function that reads an attachment."""

        def read() -> npt.NDArray[Any]:
            pixels = self._memory(source)
            source.read_into(pixels)
            return pixels

        return read

    def _memory(self, source: Attachment) -> npt.NDArray[Any]:
        def make() -> npt.NDArray[Any]:
            return np.empty(source.shape, source.dtype)

        return make() if source.retained else self._scratch.get((source.kind, source.shape), make)

    def close(self) -> None:
        """Release the context and all its memory."""
        self._ctx.release()


@dataclass(frozen=True, slots=True, eq=False)
class _Functions:
    """OpenGL's functions that moderngl does not offer."""

    bind_buffer: Callable[..., Any]
    buffer_storage: Callable[..., Any]
    map_buffer_range: Callable[..., Any]
    fence_sync: Callable[..., Any]
    client_wait_sync: Callable[..., Any]
    delete_sync: Callable[..., Any]


def _load_functions(ctx: moderngl.Context) -> _Functions | None:
    """Return the functions; None where buffers cannot stay mapped."""
    if "GL_ARB_buffer_storage" not in ctx.extensions:
        return None
    number = ctypes.c_uint
    size = ctypes.c_ssize_t
    place = ctypes.c_void_p
    wide = ctypes.c_uint64
    signatures: dict[bytes, tuple[Any, ...]] = {
        b"glBindBuffer": (None, number, number),
        b"glBufferStorage": (None, number, size, place, number),
        b"glMapBufferRange": (place, number, size, size, number),
        b"glFenceSync": (place, number, number),
        b"glClientWaitSync": (number, place, number, wide),
        b"glDeleteSync": (None, place),
    }
    egl = egl_library()
    if egl is None:
        return None
    found = [gl_function(egl, name, *signature) for name, signature in signatures.items()]
    return None if None in found else _Functions(*found)


@dataclass(frozen=True, slots=True, eq=False)
class _Slot:
    """A buffer that stays mapped to memory."""

    buffer: moderngl.Buffer
    address: int
    nbytes: int


class RingReadback:
    """Reader through buffers that the GPU writes while it draws on, and that stay mapped.

    Nothing is copied.

    An array lies in its buffer; the buffer is used again once the array and all its views are gone.
    Arrays outlive :meth:`close`: the context is released with the last one. Beyond 512 MiB in use,
    pixels are read and waited for.
    """

    early = True

    def __init__(self, ctx: moderngl.Context, functions: _Functions) -> None:
        self._ctx = ctx
        self._gl = functions
        self._free: dict[int, deque[_Slot]] = {}
        self._slots = 0
        self._bytes = 0
        self._closed = False

    def start(self, source: Attachment) -> Pixels:
        """Begin to read an attachment, and return a function that waits for the pixels."""
        nbytes = int(np.prod(source.shape)) * source.dtype.itemsize
        slot = self._slot(nbytes)
        if slot is None:
            pixels = np.empty(source.shape, source.dtype)
            source.read_into(pixels)
            return lambda: pixels
        source.read_into(slot.buffer)
        owner = (ctypes.c_ubyte * nbytes).from_address(slot.address)
        weakref.finalize(owner, self._give_back, slot).atexit = False
        lent = np.frombuffer(cast("Any", owner), source.dtype).reshape(source.shape)
        fences = [self._gl.fence_sync(_COMMANDS_COMPLETE, 0)]

        def wait() -> npt.NDArray[Any]:
            while fences:
                fence = fences.pop()
                self._gl.client_wait_sync(fence, _FLUSH_COMMANDS, _FOREVER_NS)
                self._gl.delete_sync(fence)
            return lent

        return wait

    def close(self) -> None:
        """Release the context and all its memory, at once or with the last array."""
        self._closed = True
        self._release_if_idle()

    def _give_back(self, slot: _Slot) -> None:
        """Take a slot back; on any thread."""
        self._free[slot.nbytes].append(slot)
        if self._closed:
            self._release_if_idle()

    def _release_if_idle(self) -> None:
        if sum(map(len, self._free.values())) == self._slots:
            self._ctx.release()

    def _slot(self, nbytes: int) -> _Slot | None:
        """Return a free slot; None if all that there may be are in use."""
        free = self._free.setdefault(nbytes, deque())
        if free:
            return free.pop()
        for others in self._free.values():
            while others and self._bytes + nbytes > _RING_BYTES:
                self._drop(others.pop())
        return self._make(nbytes) if self._bytes + nbytes <= _RING_BYTES else None

    def _make(self, nbytes: int) -> _Slot | None:
        """Return a new slot; None if there is no memory for it."""
        buffer = self._ctx.buffer(reserve=nbytes)
        self._gl.bind_buffer(_PIXEL_PACK_BUFFER, buffer.glo)
        self._gl.buffer_storage(_PIXEL_PACK_BUFFER, nbytes, None, _MAP_BITS | _CLIENT_STORAGE)
        address = self._gl.map_buffer_range(_PIXEL_PACK_BUFFER, 0, nbytes, _MAP_BITS)
        self._gl.bind_buffer(_PIXEL_PACK_BUFFER, 0)
        if not address:
            buffer.release()
            return None
        self._slots += 1
        self._bytes += nbytes
        return _Slot(buffer, address, nbytes)

    def _drop(self, slot: _Slot) -> None:
        slot.buffer.release()
        self._slots -= 1
        self._bytes -= slot.nbytes
