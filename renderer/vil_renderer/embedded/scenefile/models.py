"""Model of a scene file (docs/guides/scenes.md)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Final, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from vil_bridge.config.base import StrictModel
from vil_bridge.config.lighting import WeatherConfig
from vil_bridge.config.pose import Angle, Label, Length, Point, PoseConfig
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.scenefile.basics import (
    Amount,
    ClassId,
    ClassName,
    Colour,
    Direction,
    Factor,
    Light,
    PathConfig,
    Unit,
    wrong,
)


class MaterialConfig(StrictModel):
    """The surface of a shape."""

    base_colour: Colour | None = Field(
        default=None,
        description="Linear RGB 0..1; multiplies a texture; none = 1 with a texture, else 0.6.",
    )
    surface: str | None = Field(
        default=None,
        description="A surface of the shipped scenes, with its generated texture; other keys "
        "override it.",
    )
    texture: Path | None = Field(
        default=None, description="Picture (PNG, JPEG), relative to the scene file."
    )
    tile_m: Length = Field(
        default=1.0, description="Width and height of the whole texture on the surface, metres."
    )
    roughness: Unit = Field(default=0.9, description="0 = mirror, 1 = chalk.")
    metallic: Unit = Field(default=0.0, description="0 = paint, plastic, wood; 1 = bare metal.")
    emissive: Light = Field(
        default=(0.0, 0.0, 0.0), description="Light that it gives off itself, linear RGB."
    )

    @model_validator(mode="after")
    def _one_texture(self) -> Self:
        if self.surface is not None and self.texture is not None:
            raise wrong("give surface or texture, not both")
        return self


class BoxConfig(StrictModel):
    """A box that stands on its origin."""

    size_m: tuple[Length, Length, Length] = Field(description="Along its x, y and z, metres.")


class CylinderConfig(StrictModel):
    """An upright cylinder that stands on its origin."""

    radius_m: Length = Field(description="Metres.")
    height_m: Length = Field(description="Metres.")


class SphereConfig(StrictModel):
    """A sphere that stands on its origin."""

    radius_m: Length = Field(description="Metres.")


class PlaneConfig(StrictModel):
    """A rectangle centred on its origin, seen from above (its +z side)."""

    size_m: tuple[Length, Length] = Field(description="Along its x and y, metres.")


_WITHOUT_AXES: Final = (".obj", ".ply", ".stl")


class ShapeConfig(StrictModel):
    """A model: a file or one shape."""

    file: Path | None = Field(
        default=None,
        description="Model (.glb .gltf .obj .ply .stl .dae), relative to the scene file.",
    )
    box: BoxConfig | None = Field(default=None, description="A box.")
    cylinder: CylinderConfig | None = Field(default=None, description="An upright cylinder.")
    sphere: SphereConfig | None = Field(default=None, description="A sphere.")
    plane: PlaneConfig | None = Field(default=None, description="A level rectangle.")
    material: MaterialConfig | None = Field(
        default=None, description="Surface of a shape; a file has its own."
    )
    unit_m: Factor | None = Field(
        default=None,
        description="Metres in one unit of the file: 0.001 for millimetres; none = as its format "
        "says.",
    )
    up: Literal["y", "z"] = Field(
        default="z",
        description="Axis of an .obj, .ply or .stl that points up; other formats say it "
        "themselves.",
    )

    @model_validator(mode="after")
    def _one_shape(self) -> Self:
        shapes = ("file", "box", "cylinder", "sphere", "plane")
        given = [name for name in shapes if getattr(self, name) is not None]
        if len(given) != 1:
            found = f"both {given[0]} and {given[1]}" if given else "none of them"
            raise wrong(f"give exactly one of {', '.join(shapes)}; there is {found}")
        if self.file is not None and self.material is not None:
            raise wrong("material belongs to shapes; a file brings its own")
        if self.file is None and self.model_fields_set & {"unit_m", "up"}:
            raise wrong("unit_m and up belong to a file; a shape is in metres, z up")
        if (
            self.file is not None
            and "up" in self.model_fields_set
            and self.file.suffix.lower() not in _WITHOUT_AXES
        ):
            raise wrong(
                f"a {self.file.suffix} says itself which axis points up; leave `up` out, "
                "turn it with ypr_deg"
            )
        return self


class ModelConfig(PoseConfig, ShapeConfig):
    """A model with its place and size."""

    scale: Factor | tuple[Factor, Factor, Factor] = Field(
        default=1.0, description="Factor on its size: one number, or three along its own axes."
    )

    def start(self) -> Transform:
        """Return the pose, at time 0 if it moves."""
        return self.transform()

    def matrix(self) -> FloatArray:
        """Return the matrix from the model's axes to the outer ones, shape (4, 4).

        Turned, scaled, moved.
        """
        matrix = self.start().matrix()
        matrix[:3, :3] *= np.broadcast_to(self.scale, 3)
        return matrix


class ObjectConfig(ModelConfig):
    """An object of the scene."""

    name: Label = Field(description="Unique among the objects.")
    semantic: str | None = Field(
        default=None, alias="class", description="Semantic class; none = id 0."
    )
    instance: int | None = Field(
        default=None,
        ge=1,
        le=32767,
        description="Id in instance pictures, unique; none = the next free one.",
    )
    layer: Label = Field(default="scene", description="Layer that a camera may ask for alone.")
    movable: bool = Field(
        default=False, description="Follows the actor of the same name once one comes."
    )
    path: PathConfig | None = Field(
        default=None, description="Way that it goes by itself; makes it movable."
    )
    animation: str | None = Field(
        default=None,
        description="Animation of its file that plays over and over; makes it movable.",
    )
    animation_speed: Annotated[float, Field(ge=-100, le=100)] = Field(
        default=1.0, description="Times faster; negative = backwards."
    )
    animation_phase_s: Annotated[float, Field(ge=0, le=100_000)] = Field(
        default=0.0, description="Where in the animation it is at time 0, seconds."
    )
    collider: Literal["mesh", "box", "none"] = Field(
        default="mesh",
        description="What rays and vehicles meet: its triangles, the box around it, or nothing.",
    )
    casts_shadow: bool = Field(default=True, description="Throws a shadow.")
    light_per_candela: Amount = Field(
        default=1.0 / math.pi,
        description="Relative light at 1 m for one candela of the file's own lights; 0 = leave its "
        "lights out.",
    )

    @model_validator(mode="after")
    def _moving(self) -> Self:
        said = self.model_fields_set
        if self.animation is None and said & {"animation_speed", "animation_phase_s"}:
            raise wrong("animation_speed and animation_phase_s belong to `animation`")
        if self.animation is not None and self.file is None:
            raise wrong("animation belongs to a file; shapes have none")
        if self.path and self.path.poses and said & {"p_m", "yaw_deg", "ypr_deg", "q_xyzw"}:
            raise wrong("the poses of its path say where it is: leave p_m and its rotation out")
        return self

    def start(self) -> Transform:
        """Return the pose at time 0."""
        return self.path.poses[0].transform() if self.path and self.path.poses else self.transform()


class SunConfig(StrictModel):
    """The sun at a fixed place."""

    azimuth_deg: Angle = Field(
        description="Compass bearing of the sun: 0 = north, 90 = east, degrees."
    )
    elevation_deg: float = Field(ge=0, le=90, description="Height above the horizon, degrees.")
    light: Light = Field(default=(0.9, 0.85, 0.75), description="Its light, linear RGB.")


class EnvironmentConfig(StrictModel):
    """Light from everywhere, sky and exposure; missing values are those of the base."""

    time_of_day_h: float | None = Field(
        default=None,
        ge=0,
        le=24,
        description="Local solar time, hours: sun, sky and ambient light of a clear day.",
    )
    latitude_deg: float | None = Field(
        default=None, ge=-90, le=90, description="For the sun's path, north positive, degrees."
    )
    sky: Light | None = Field(
        default=None, description="Ambient light on what faces up, linear RGB."
    )
    ground: Light | None = Field(
        default=None, description="Ambient light on what faces down, linear RGB."
    )
    zenith: Light | None = Field(default=None, description="Colour of the sky above, linear RGB.")
    horizon: Light | None = Field(
        default=None, description="Colour of the sky at the horizon, linear RGB."
    )
    sun: SunConfig | None = Field(
        default=None, description="A sun at a fixed place; null = no sun."
    )
    exposure: Factor | None = Field(default=None, description="Factor on all light.")


class LightConfig(StrictModel):
    """A lamp, or light from far away."""

    name: Label = Field(description="Unique among the lights.")
    kind: Literal["point", "spot", "directional"] = Field(
        default="point", description="Which of the three."
    )
    p_m: Point | None = Field(
        default=None, description="Position of a point or spot light in the world, metres."
    )
    colour: Colour = Field(default=(1.0, 1.0, 1.0), description="Linear RGB 0..1.")
    power: Amount = Field(
        default=1.0,
        description="Relative light at 1 m (directional: everywhere); 1 shows matt white as white.",
    )
    direction: Direction | None = Field(
        default=None, description="Where a spot or directional light shines to."
    )
    cone_deg: tuple[float, float] = Field(
        default=(30.0, 40.0),
        description="Half angles of a spot: full light within the first, none beyond the second.",
    )
    range_m: float = Field(
        default=0.0, ge=0, le=10_000, description="Where it ends, metres; 0 = unlimited."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.p_m is None) != (self.kind == "directional"):
            if self.p_m:
                raise wrong(f"a {self.kind} light has no p_m: it is everywhere")
            raise wrong(f"a {self.kind} light needs p_m")
        if (self.direction is None) != (self.kind == "point"):
            if self.direction:
                raise wrong(f"a {self.kind} light has no direction")
            raise wrong(f"a {self.kind} light needs a direction")
        if not 0.0 <= self.cone_deg[0] < self.cone_deg[1] <= 90.0:
            raise wrong("cone_deg must grow: 0 <= inner < outer <= 90")
        return self


class BeaconConfig(StrictModel):
    """An IR beacon."""

    name: Label = Field(description="Unique among the beacons.")
    p_m: Point = Field(description="In the world, or in the axes of what it is on, metres.")
    carrier: Label | None = Field(
        default=None,
        description="Object, gate or actor that carries it; none = fixed in the world.",
    )


class FrameConfig(StrictModel):
    """Four bars around a gate's opening."""

    bar_m: Length = Field(default=0.2, description="Width and depth of a bar, metres.")
    legs: bool = Field(default=True, description="Legs down to z = 0; a gate that leans has none.")
    beacons: bool = Field(
        default=True,
        description="A beacon NAME_1 ... NAME_4 in each corner of the side that one flies at.",
    )


class GateConfig(PoseConfig):
    """An opening to fly through along its +x; ``p_m`` is its middle."""

    name: Label = Field(description="Unique among the gates.")
    width_m: Length = Field(description="Of the opening, along y, metres.")
    height_m: Length = Field(description="Of the opening, along z, metres.")
    frame: FrameConfig | None = Field(
        default=None, description="A frame to see; none = only the opening."
    )


class PrefabConfig(ModelConfig):
    """A model for actors that name it; its pose is that of the model in the actor's body axes."""

    semantic: str = Field(default="vehicle", alias="class", description="Semantic class.")
    fit: Literal["size", "none"] = Field(
        default="none", description="size = stretched to the actor's bounding box; none = unscaled."
    )
    spin: dict[str, Annotated[float, Field(ge=-1000, le=1000)]] = Field(
        default={}, description="Nodes of the file that turn, with their revolutions per second."
    )
    spin_axis: Direction = Field(
        default=(0.0, 0.0, 1.0), description="Axis of those nodes, in their own axes."
    )


class SplatConfig(PoseConfig):
    """Gaussian splats as environment."""

    file: Path = Field(description="PLY, SPZ, SOG, GLB or .splat, relative to the scene file.")
    proxy: Path | None = Field(
        default=None,
        description="Model in the splats' axes that gives depth, ids, rays and collisions; none = "
        "their own surface.",
    )
    scale: Factor = Field(default=1.0, description="Metres in one unit of the splats.")
    up: Literal["y", "z", "-y"] | None = Field(
        default=None,
        description="Axis of the splats that points up; of the proxy too, unless its format "
        "says it. "
        "None = y of a GLB or .gltf, z of the others.",
    )
    semantic: str | None = Field(
        default=None, alias="class", description="Semantic class of the proxy; none = id 0."
    )


class SceneFile(StrictModel):
    """A whole scene file."""

    scene: Label = Field(description="Name of the scene.")
    base: str | None = Field(
        default=None, description="Shipped scene to start from; none = nothing."
    )
    environment: EnvironmentConfig = Field(
        default=EnvironmentConfig(), description="Light, sky, exposure."
    )
    classes: dict[ClassName, ClassId] = Field(
        default={}, description="More semantic classes, name to id."
    )
    objects: tuple[ObjectConfig, ...] = Field(default=(), description="What stands in it.")
    lights: tuple[LightConfig, ...] = Field(
        default=(), description="Lamps; at most one directional light."
    )
    beacons: tuple[BeaconConfig, ...] = Field(default=(), description="IR beacons.")
    gates: tuple[GateConfig, ...] = Field(
        default=(), description="Openings to fly through, in the order of the race."
    )
    course: str | None = Field(
        default=None,
        description="Race course, shipped or a file relative to the scene file; its gates replace "
        "those of the base.",
    )
    course_seed: int | None = Field(
        default=None,
        ge=0,
        description="Seed of the course's random offsets; none = as the course lists them.",
    )
    obstacle_perturbation: Path | None = Field(
        default=None, description="File of `Name: dx,dy,dyaw` that moves gates and objects."
    )
    prefabs: dict[Label, PrefabConfig] = Field(
        default={}, description="Models for actors by the name they use."
    )
    splats: SplatConfig | None = Field(
        default=None, description="Gaussian splats around everything."
    )
    weather: WeatherConfig | None = Field(
        default=None, description="Weather; none = that of the base."
    )

    @model_validator(mode="after")
    def _one_course(self) -> Self:
        if self.course is not None and self.gates:
            raise wrong("give gates or course, not both")
        if self.course is None and self.course_seed is not None:
            raise wrong("course_seed belongs to a course; name one")
        return self
