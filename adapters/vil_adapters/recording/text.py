"""Text files of numbers, read within limits; errors name file and line."""

from __future__ import annotations

import gzip
import re
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from vil_adapters.recording.model import IntArray
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import FloatArray

LIMIT_BYTES: Final = 1 << 29
"""Largest file that is read, unpacked."""
_CHUNK_BYTES: Final = 1 << 20


def wrong(path: Path, line: int, problem: str) -> ConfigError:
    """Return the error of a line (counted from 1), to be raised."""
    return ConfigError(f"{path}:{line}: {problem}")


def read_lines(path: Path) -> list[str]:
    """Return all lines of a text file, gzipped or not.

    Raises:
        ConfigError: it cannot be read, is not text or is too large.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            data = b"".join(_chunks(stream))
        text = data.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as exc:
        raise ConfigError(f"{path}: cannot be read: {exc}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: is not a text file (byte {exc.start})") from exc
    if len(data) > LIMIT_BYTES:
        raise ConfigError(f"{path}: is larger than {LIMIT_BYTES >> 20} MiB. Cut the recording")
    return text.split("\n")


def _chunks(stream: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    """Yield a stream in pieces, up to one beyond the limit.

    One read of that size would allocate all of it.
    """
    for _ in range(LIMIT_BYTES // _CHUNK_BYTES + 1):
        chunk = stream.read(_CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


def table(
    path: Path, lines: list[str], first_line: int, columns: list[int] | None, delimiter: str | None
) -> FloatArray:
    """Return the numbers of some columns, shape (rows, columns).

    Empty cells are NaN, empty lines are skipped.

    Args:
        path: the file, for messages.
        lines: its rows of numbers.
        first_line: where the first of them stands in the file.
        columns: which ones, counted from 0; None = all, which must be as many in each row.
        delimiter: None = any white space.

    Raises:
        ConfigError: a cell is not a number, a row has too few cells (or another number), or no
            row exists.
    """
    numbered = [
        (number, line)
        for number, line in enumerate(lines, first_line)
        if not _blank(line, delimiter)
    ]
    if not numbered:
        raise wrong(path, first_line, "no rows of numbers follow")
    rows = [line for _, line in numbered]
    if delimiter is not None:
        # The parser takes no empty cells; twice, since neighbours share a delimiter.
        text = "\n".join(f"{delimiter}{line.rstrip(chr(13))}{delimiter}" for line in rows)
        for _ in range(2):
            text = text.replace(delimiter * 2, f"{delimiter}nan{delimiter}")
        rows = [line[len(delimiter) : -len(delimiter)] for line in text.split("\n")]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.loadtxt(rows, delimiter=delimiter, usecols=columns, comments=None, ndmin=2)
    except ValueError as exc:
        found = re.search(r"at row (\d+)", str(exc))
        # Rows are counted from 0 for cells, from 1 for missing columns.
        cell = "convert" in str(exc)
        row = 0 if found is None else int(found[1]) - (not cell)
        problem = "fewer columns than are needed, or another number than above"
        if cell:
            problem = re.sub(r" to float64 at row.*", ": no number", str(exc))
        raise wrong(path, numbered[row][0], problem) from None


def _blank(line: str, delimiter: str | None) -> bool:
    return not (line if delimiter is None else line.replace(delimiter, "")).strip()


def increasing_ns(path: Path, t_s: FloatArray, numbers: Sequence[int]) -> IntArray:
    """Return the times in nanoseconds; ``numbers`` are those of their lines.

    Raises:
        ConfigError: one does not follow the one before, or is not a time.
    """
    if not (np.isfinite(t_s).all() and np.abs(t_s).max() < 2.0**33):
        raise wrong(
            path, numbers[int(np.argmin(np.isfinite(t_s)))], "the time is not a number of seconds"
        )
    t_ns = np.rint(t_s * NS_PER_S).astype(np.int64)
    steps = np.diff(t_ns)
    if (steps <= 0).any():
        row = int(np.argmax(steps <= 0)) + 1
        raise wrong(path, numbers[row], f"time {t_s[row]:.6f} does not follow {t_s[row - 1]:.6f}")
    return t_ns
