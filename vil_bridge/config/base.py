"""Base classes of every configuration model: strict, frozen, units in key names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic_core import PydanticCustomError

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.interfaces.faults import Faults

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$", max_length=64)]
"""Name of an entry of a section."""


def custom(text: str) -> PydanticCustomError:
    """Return an error of validation with a text of our own."""
    return PydanticCustomError("bridge", "{text}", {"text": text})


_LONGEST_M: Final = 30.0


def check_size(lengths_m: Sequence[float], what: str) -> None:
    """Refuse lengths of a body that are beyond any room.

    Raises:
        PydanticCustomError: one is beyond 30 m, most often since it is in millimetres.
    """
    longest_m = max(map(abs, lengths_m))
    if longest_m > _LONGEST_M:
        raise custom(
            f"{what} {longest_m:g} m. Lengths are metres: write {longest_m / 1000.0:g} "
            f"for {longest_m:g} mm"
        )


def check_faults(text: str) -> None:
    """Check faults to inject into the events of a source.

    Raises:
        ConfigError: the text is malformed, or asks for a fault that works with emulators only.
    """
    if Faults.parse(text).restart:
        raise ConfigError("the 'restart' fault works with emulators only")


def from_file_folder(path: Path, info: ValidationInfo) -> Path:
    """Return a path as the configuration file means it.

    ``~`` is the home folder, a relative path begins at the file.

    What comes from no file stays relative.

    Raises:
        PydanticCustomError: there is no home folder.
    """
    try:
        expanded = path.expanduser()
    except RuntimeError:
        raise custom(
            f"{str(path)[:80]!r}: this user has no home folder. Write the whole path"
        ) from None
    folder: Path | None = (info.context or {}).get("folder")
    return expanded if folder is None else folder / expanded


def existing(path: Path, info: ValidationInfo) -> Path:
    """Return the path of an input, which has to be there where the loader looks for inputs.

    Raises:
        PydanticCustomError: it is not there.
    """
    whole = from_file_folder(path, info)
    if (info.context or {}).get("find_inputs") and not whole.exists():
        raise custom(
            f"{whole} does not exist. Write where it is, as seen from the folder of this file"
        )
    return path


def _name_or_file(text: str, info: ValidationInfo) -> str:
    """Return a name unchanged, and the path of a file as the configuration file means it."""
    if "/" not in text and not Path(text).suffix:
        return text
    return str(from_file_folder(Path(text), info))


def _path_text(text: str, info: ValidationInfo) -> str:
    return str(from_file_folder(Path(text), info))


PathText = Annotated[str, AfterValidator(_path_text)]
"""A path with parts that are filled in later."""
NameOrFile = Annotated[str, AfterValidator(_name_or_file)]
"""A shipped thing's name, or a file: what has a slash or a suffix."""
ExistingPath = Annotated[Path, AfterValidator(existing)]
"""A file or folder that is read, and has to be there."""


class Listening(NamedTuple):
    """Key of a model that holds a port to listen on.

    Attributes:
        key: a port, next to the model's ``bind``; or one endpoint ``SCHEME ADDRESS:PORT``, or
            several.
        transport: ``tcp``, ``udp``, or both as ``tcp udp``.
        each_camera: it is the first of as many ports as there are cameras.
    """

    key: str
    transport: str
    each_camera: bool = False


class StrictModel(BaseModel):
    """Unknown keys are errors, values never change after loading, non-finite numbers are refused.

    Paths are those that the configuration file means (:func:`from_file_folder`).

    Attributes:
        listens: its ports, which no other part of a configuration may have.
    """

    listens: ClassVar[tuple[Listening, ...]] = ()

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="wrap")
    @classmethod
    def _as_written(
        cls, value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        found = read(value)
        if isinstance(found, Path):
            return from_file_folder(found, info)
        if isinstance(value, bool) and not isinstance(found, bool):
            raise PydanticCustomError(
                "number_type", "should be a number, got {text}", {"text": str(value).lower()}
            )
        return found


class PluginConfig(StrictModel):
    """A section whose ``type`` picks the implementation."""

    type: str = Field(description="Name of the implementation, as `vil-bridge check` lists them.")


class SourceConfigBase(PluginConfig):
    """Keys of every source of poses.

    Attributes:
        follows_bridge_time: its events happen in bridge time, so that a simulation may slow it.
        poses_carry_noise: it measures, so that no pose repeats the one before to the bit unless it
            is frozen.
        fed_by_readers: its samples come from the readers of the stream; without a reader it waits.
    """

    follows_bridge_time: ClassVar[bool] = False
    poses_carry_noise: ClassVar[bool] = False
    fed_by_readers: ClassVar[bool] = False

    room: str | None = Field(
        default=None,
        description="Room whose frame the poses are in; None for sources without poses.",
    )
    required_within_s: float | None = Field(
        default=None,
        gt=0,
        description="The bridge ends with exit code 4 when this source is silent for longer, "
        "seconds; none = never.",
    )
    faults: str = Field(
        default="", description="Fault injection, e.g. loss=5%,delay=20ms±5,occlude=drone:1s."
    )
    marker_template: Path | None = Field(
        default=None,
        description="Segments of labelled marker sets (YAML, see docs/guides/humans.md): single "
        "markers become "
        "skeletons and bodies; none = they do not.",
    )

    def needs_real_time(self) -> str:
        """Return why the source cannot follow simulated time; empty = it can."""
        if self.follows_bridge_time:
            return ""
        return (
            f"{self.type} measures the real world, whose time cannot be simulated: use "
            "`clock: real`"
        )

    @field_validator("faults")
    @classmethod
    def _valid_faults(cls, text: str) -> str:
        try:
            check_faults(text)
        except ConfigError as exc:
            raise PydanticCustomError(
                "faults", "{text}", {"text": "; ".join(exc.problems)}
            ) from None
        return text


class OutputConfigBase(PluginConfig):
    """Keys of every output.

    Attributes:
        takes_humans: it can send actors that are humans.
    """

    takes_humans: ClassVar[bool] = True

    cameras: tuple[str, ...] = Field(
        default=(), description="Cameras whose pictures it sends; none named = none."
    )
    actors: tuple[str, ...] = Field(
        default=(), description="Actors whose poses it sends; none named = none."
    )


class TransformConfig(StrictModel):
    """A rigid transform written as position and intrinsic Z-Y-X angles."""

    p_m: tuple[float, float, float] = Field(
        default=(0.0, 0.0, 0.0), description="Translation, metres."
    )
    ypr_deg: tuple[float, float, float] = Field(
        default=(0.0, 0.0, 0.0), description="Yaw, pitch, roll (intrinsic Z-Y-X), degrees."
    )

    def transform(self) -> Transform:
        """Return the same as a :class:`Transform`."""
        return Transform.of(self.p_m, q_from_euler_zyx(*(math.radians(a) for a in self.ypr_deg)))
