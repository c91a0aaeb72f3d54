"""Conversion of a checked scene file to the scene that it describes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Final, TypeVar

import numpy as np

from vil_bridge.config.course import load_course
from vil_bridge.config.references import similar
from vil_bridge.config.yaml_positions import Path
from vil_bridge.core.errors import ConfigError, RendererError
from vil_bridge.core.geometry import Transform, q_from_matrix
from vil_bridge.core.types import FloatArray
from vil_bridge.courses.variants import perturbed as perturbed_course
from vil_renderer.embedded.assets.importers import AXES
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.lighting.daylight import daylight, to_sun
from vil_renderer.embedded.scene import (
    Beacon,
    Clip,
    Environment,
    Gate,
    Lamp,
    Prefab,
    Scene,
    SceneObject,
    SplatSet,
    Sun,
)
from vil_renderer.embedded.scenefile.models import (
    EnvironmentConfig,
    LightConfig,
    ModelConfig,
    ObjectConfig,
    PrefabConfig,
    SceneFile,
    SplatConfig,
    SunConfig,
)
from vil_renderer.embedded.scenefile.parts import PartFactory, gate_frame
from vil_renderer.embedded.scenefile.perturbation import perturbed, read_moves
from vil_renderer.embedded.scenefile.references import PROXY, known_classes
from vil_renderer.embedded.scenes.race import with_course
from vil_renderer.embedded.splats import arranged, read_splats
from vil_renderer.embedded.splats.surface import surface_of

logger = logging.getLogger(__name__)

_LAST_INSTANCE: Final = 32767
_MORNING_H: Final = 10.0
_LATITUDE_DEG: Final = 47.4
_Made = TypeVar("_Made")


@dataclass(slots=True)
class Builder:
    """Builder of one scene that collects the problems it meets.

    Attributes:
        config: the file. folder: where its relative paths start. base: the scene it starts from.
        problems: where in the file, and what.
        notes: problems of other files, which name their own places.
    """

    config: SceneFile
    folder: FilePath
    base: Scene | None
    problems: list[tuple[Path, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _factory: PartFactory = field(init=False)
    _classes: dict[str, int] = field(init=False)
    _free: Iterator[int] = field(init=False)

    def __post_init__(self) -> None:
        self._factory = PartFactory(self.folder)
        self._classes = known_classes(self.config.classes)
        used = {thing.instance for thing in self.config.objects if thing.instance is not None}
        if self.base:
            used |= {thing.instance for thing in self.base.objects}
        self._free = (number for number in range(1, _LAST_INSTANCE + 1) if number not in used)

    def scene(self) -> Scene:
        """Return the scene; meaningless if there are problems."""
        config = self.config
        base = self.base or Scene(config.scene, (), _environment(EnvironmentConfig(), None))
        objects, lamps, suns = self._objects()
        frames, frame_beacons = self._frames()
        proxy: tuple[SceneObject, ...] = ()
        splats: SplatSet | None = None
        if config.splats:
            proxy, splats = self._splats(config.splats)
        given = [Beacon(b.name, np.array(b.p_m), b.carrier or "") for b in config.beacons]
        scene = Scene(
            config.scene,
            (*base.objects, *objects, *frames, *proxy),
            self._environment(suns),
            (*base.lamps, *(_lamp(light) for light in config.lights if light.p_m), *lamps),
            (*base.beacons, *given, *frame_beacons),
            (
                *base.gates,
                *(Gate(g.name, g.transform(), g.width_m, g.height_m) for g in config.gates),
            ),
            {**base.prefabs, **self._prefabs()},
            self._classes,
            splats or base.splats,
            config.weather.weather() if config.weather else base.weather,
        )
        return _on_carriers(self._perturbed(self._raced(scene)))

    # --- objects -------------------------------------------------------------------------------

    def _objects(self) -> tuple[list[SceneObject], list[Lamp], list[Sun]]:
        """Return the file's objects, and the lights that their files bring."""
        objects: list[SceneObject] = []
        lamps: list[Lamp] = []
        suns: list[Sun] = []
        for index, config in enumerate(self.config.objects):
            asset = self._model(("objects", index), config, config.name)
            if asset is None:
                continue
            moving = config.movable or config.path is not None or config.animation is not None
            if config.file and not moving:
                asset = self._factory.cut(asset, config.scale)
            placed = SceneObject(
                config.name,
                asset,
                config.matrix(),
                self._class(config.semantic),
                config.instance or self._instance(("objects", index)),
                config.layer,
                moving,
                path=config.path.motion_path(config.start()) if config.path else None,
                clip=self._clip(("objects", index, "animation"), config, asset),
                solid=config.collider != "none",
                casts_shadow=config.casts_shadow,
                collider="box" if config.collider == "box" else "mesh",
            )
            objects.append(placed)
            if config.light_per_candela:
                _lights_of(placed, config.light_per_candela, lamps, suns)
        return objects, lamps, suns

    def _class(self, name: str | None) -> int:
        """Return the number of a class; 0 = of none."""
        if not name:
            return 0
        return self._classes[name]

    def _clip(self, path: Path, config: ObjectConfig, asset: Asset) -> Clip | None:
        name = config.animation
        if name is None:
            return None
        if name not in asset.animations:
            listed = ", ".join(sorted(asset.animations)[:20]) or "none"
            known = similar(name, asset.animations) or f"; it has {listed}"
            self.problems.append((path, f"the model has no animation {name!r}{known}"))
        return Clip(name, config.animation_speed, config.animation_phase_s)

    def _model(self, path: Path, config: ModelConfig, name: str) -> Asset | None:
        where = (*path, "file") if config.file else (*path, "material", "texture")
        return self._made(where, lambda: self._factory.model(config, name))

    def _made(self, path: Path, make: Callable[[], _Made]) -> _Made | None:
        try:
            return make()
        except RendererError as exc:
            self.problems.append((path, str(exc)))
            return None

    def _instance(self, path: Path) -> int:
        number = next(self._free, 0)
        if not number:
            self.problems.append(
                (path, f"there are more objects than instance ids, 1 to {_LAST_INSTANCE}")
            )
        return number

    def _frames(self) -> tuple[list[SceneObject], list[Beacon]]:
        objects: list[SceneObject] = []
        beacons: list[Beacon] = []
        for index, gate in enumerate(self.config.gates):
            if gate.frame is None:
                continue
            asset, corners = gate_frame(gate, gate.frame)
            matrix = gate.transform().matrix()
            number = self._instance(("gates", index))
            objects.append(SceneObject(gate.name, asset, matrix, self._classes["gate"], number))
            beacons += [
                replace(corner, p_m=gate.transform().apply(corner.p_m)) for corner in corners
            ]
        return objects, beacons

    def _splats(self, config: SplatConfig) -> tuple[tuple[SceneObject, ...], SplatSet]:
        """Return the splats, and what replaces them in everything but colour.

        Their proxy, or their own surface.
        """
        matrix = config.transform().matrix() @ np.diag(
            [config.scale, config.scale, config.scale, 1.0]
        )
        up = config.up or ("y" if config.file.suffix.lower() in (".glb", ".gltf") else "z")
        logger.info("splats: file=%s up=%s", config.file.name, up)
        splats = SplatSet((self.folder / config.file).resolve(), matrix @ AXES[up])
        proxy = config.proxy
        if proxy is not None:
            # The loader of the proxy turns it in the same way.
            asset = self._made(("splats", "proxy"), lambda: self._factory.file(proxy, None, up))
        else:
            made = self._made(("splats", "file"), lambda: arranged(read_splats(splats.path)))
            splats, matrix = replace(splats, arranged=made), splats.T_world_splats
            asset = None
            if made:
                asset = surface_of(made, PROXY)
        if asset is None:
            return (), splats
        semantic = self._class(config.semantic)
        stand_in = SceneObject(PROXY, asset, matrix, semantic, self._instance(("splats",)))
        return (stand_in,), replace(splats, proxy=(PROXY,))

    def _prefabs(self) -> dict[str, Prefab]:
        prefabs: dict[str, Prefab] = {}
        for name, config in self.config.prefabs.items():
            path: Path = ("prefabs", name)
            asset = self._model(path, config, name)
            if asset is None:
                continue
            nodes = [node.name for node in asset.nodes]
            for node in config.spin:
                if node not in nodes:
                    known = similar(node, nodes) or f"; it has {', '.join(nodes[:20])}"
                    self.problems.append(
                        ((*path, "spin", node), f"the model has no node {node!r}{known}")
                    )
            prefabs[name] = _prefab(config, asset, self._classes[config.semantic])
        return prefabs

    # --- light and places ----------------------------------------------------------------------

    def _environment(self, suns: list[Sun]) -> Environment:
        written = self.config.environment
        made = _environment(written, self.base.environment if self.base else None)
        far = [light for light in self.config.lights if light.kind == "directional"]
        if far:
            return replace(made, sun=_sun(far[0]))
        chosen = (
            self.base is not None
            or written.time_of_day_h is not None
            or "sun" in written.model_fields_set
        )
        if suns and not chosen:
            return replace(made, sun=suns[0])
        return made

    def _raced(self, scene: Scene) -> Scene:
        """Return the scene with the gates and poles of the file's course."""
        name = self.config.course
        if name is None:
            return scene
        place: str | FilePath = name
        if "/" in name or FilePath(name).suffix:
            place = self.folder / name
        try:
            course = load_course(place)
        except ConfigError as exc:
            self.problems += [(("course",), problem) for problem in exc.problems]
            return scene
        if self.config.course_seed is not None:
            course = perturbed_course(course, self.config.course_seed)
        return with_course(scene, course)

    def _perturbed(self, scene: Scene) -> Scene:
        path = self.config.obstacle_perturbation
        if path is None:
            return scene
        moves, unread = read_moves(self.folder / path)
        scene, unknown = perturbed(scene, moves)
        self.notes += [*unread, *unknown]
        return scene


def _prefab(config: PrefabConfig, asset: Asset, semantic: int) -> Prefab:
    asset_from_body = np.linalg.inv(config.matrix()).astype(np.float64)
    return Prefab(asset, semantic, config.fit, config.spin, config.spin_axis, asset_from_body)


def _environment(config: EnvironmentConfig, base: Environment | None) -> Environment:
    """Return the base's light, or that of the hour, or of a morning, with the file's values over
    it.
    """
    latitude_deg = _LATITUDE_DEG
    exposure = 1.0
    if base:
        latitude_deg = base.latitude_deg
        exposure = base.exposure
    if config.latitude_deg is not None:
        latitude_deg = config.latitude_deg
    hour = config.time_of_day_h
    if hour is None and base:
        made = base
    else:
        made = daylight(_MORNING_H if hour is None else hour, latitude_deg)
        made = replace(made, exposure=exposure)
    if "sun" in config.model_fields_set:
        made = replace(made, sun=_fixed_sun(config.sun))
    if config.sky is not None:
        made = replace(made, sky=np.array(config.sky))
    if config.ground is not None:
        made = replace(made, ground=np.array(config.ground))
    return replace(
        made,
        latitude_deg=latitude_deg,
        zenith=config.zenith or made.zenith,
        horizon=config.horizon or made.horizon,
        exposure=config.exposure or made.exposure,
    )


def _unit(vector: FloatArray) -> FloatArray:
    return np.asarray(vector / np.linalg.norm(vector))


def _fixed_sun(config: SunConfig | None) -> Sun | None:
    if config is None:
        return None
    return Sun(to_sun(config.azimuth_deg, config.elevation_deg), np.array(config.light))


def _sun(light: LightConfig) -> Sun:
    assert light.direction is not None
    return Sun(-_unit(np.array(light.direction)), np.array(light.colour) * light.power)


def _lamp(light: LightConfig) -> Lamp:
    inner, outer = np.radians(light.cone_deg)
    direction = None if light.direction is None else _unit(np.array(light.direction))
    colour = np.array(light.colour) * light.power
    return Lamp(
        light.name,
        np.array(light.p_m),
        colour,
        direction,
        (float(inner), float(outer)),
        light.range_m,
    )


def _lights_of(
    thing: SceneObject, light_per_candela: float, lamps: list[Lamp], suns: list[Sun]
) -> None:
    """Append the lights in an object's file; they shine along the -z of their nodes."""
    for node, matrix in zip(thing.asset.nodes, thing.asset.asset_from_node(), strict=True):
        light = node.light
        if light is None or not light.intensity:
            continue
        m = thing.world_from_asset @ matrix
        direction = -_unit(m[:3, 2])
        colour = np.array(light.colour) * light.intensity * light_per_candela
        if light.kind == "directional":
            suns.append(Sun(-direction, colour))
            continue
        name = f"{thing.name}/{light.name or node.name}"
        count = sum(lamp.name.partition("#")[0] == name for lamp in lamps)
        spot = direction if light.kind == "spot" else None
        if count:
            name = f"{name}#{count + 1}"
        lamps.append(Lamp(name, m[:3, 3].copy(), colour, spot, light.cone_rad, light.range_m))


def _on_carriers(scene: Scene) -> Scene:
    """Fix beacons on static objects in the world; the others keep their carrier.

    Those on a movable object go over to its asset's axes, which its scale stretches; an actor has
    none.
    """
    poses = {gate.name: gate.T_world_gate for gate in scene.gates}
    poses |= {thing.name: _pose(thing) for thing in scene.objects if not thing.movable}
    scales = {thing.name: _scale(thing) for thing in scene.objects if thing.movable}

    def placed(beacon: Beacon) -> Beacon:
        if beacon.carrier in poses:
            return Beacon(beacon.name, poses[beacon.carrier].apply(beacon.p_m))
        return replace(beacon, p_m=beacon.p_m / scales.get(beacon.carrier, 1.0))

    return replace(scene, beacons=tuple(placed(beacon) for beacon in scene.beacons))


def _pose(thing: SceneObject) -> Transform:
    """Return an object's place and attitude, without its scale."""
    m = thing.world_from_asset
    return Transform(m[:3, 3].copy(), q_from_matrix(m[:3, :3] / _scale(thing)))


def _scale(thing: SceneObject) -> FloatArray:
    """Return metres in the world per metre along each axis of the asset, shape (3,)."""
    return np.asarray(np.linalg.norm(thing.world_from_asset[:3, :3], axis=0))
