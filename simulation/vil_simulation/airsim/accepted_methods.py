"""Methods without an effect here: a program goes on without it, and the log says so once."""

from __future__ import annotations

from vil_simulation.airsim.methods import method
from vil_simulation.airsim.quantities import DrawnSize, Share, Unused
from vil_simulation.airsim.values import PointNed
from vil_simulation.airsim.vehicles import ServedVehicles


class AcceptedMethods:
    """Methods that check their arguments and answer as if they had worked, or found nothing to
    change.
    """

    def __init__(self, vehicles: ServedVehicles) -> None:
        self._vehicles = vehicles

    @method("setSafety", effect=False)
    def set_safety(
        self,
        enable_reasons: int,  # noqa: ARG002
        obs_clearance: Unused,  # noqa: ARG002
        obs_strategy: int,  # noqa: ARG002
        obs_avoidance_vel: Unused,  # noqa: ARG002
        origin: PointNed,  # noqa: ARG002
        xy_length: Unused,  # noqa: ARG002
        max_z: Unused,  # noqa: ARG002
        min_z: Unused,  # noqa: ARG002
        vehicle_name: str = "",
    ) -> bool:
        """Limit flights to a box."""
        self._vehicles.find(vehicle_name)
        return True

    @method("simSetTraceLine", effect=False)
    def set_trace_line(
        self,
        color_rgba: list[Share],  # noqa: ARG002
        thickness: DrawnSize,  # noqa: ARG002
        vehicle_name: str = "",
    ) -> None:
        """Colour the trace of a vehicle."""
        self._vehicles.find(vehicle_name)

    @method("simSetObjectMaterial", effect=False)
    def set_material(
        self,
        object_name: str,  # noqa: ARG002
        material_name: str,  # noqa: ARG002
        component_id: int = 0,  # noqa: ARG002
    ) -> bool:
        """Give an object a material of the Unreal Engine."""
        return False

    @method("simSetObjectMaterialFromTexture", effect=False)
    def set_texture(
        self,
        object_name: str,  # noqa: ARG002
        texture_path: str,  # noqa: ARG002
        component_id: int = 0,  # noqa: ARG002
    ) -> bool:
        """Give an object a texture."""
        return False

    @method("simSwapTextures", effect=False)
    def swap_textures(
        self,
        tags: str,  # noqa: ARG002
        tex_id: int,  # noqa: ARG002
        component_id: int = 0,  # noqa: ARG002
        material_id: int = 0,  # noqa: ARG002
    ) -> list[str]:
        """Exchange textures of the Unreal Engine."""
        return []

    @method("simLogMultirotorState", effect=False)
    def log_state(self, is_enabled: bool, vehicle_name: str = "") -> None:  # noqa: ARG002
        """Write a vehicle's states into the drone racing lab's own log."""
        self._vehicles.find(vehicle_name)

    @method("simSetTextureFromUrl", effect=False)
    def set_texture_from_url(self, object_name: str, url: str) -> bool:  # noqa: ARG002
        """Give an object a texture from the network, which this server never asks."""
        return False

    @method("clearTrajectory", effect=False)
    def clear_trajectory(self, vehicle_name: str = "") -> None:
        """Remove the line of a trajectory from the pictures."""
        self._vehicles.find(vehicle_name)
