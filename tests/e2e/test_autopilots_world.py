"""A recorded vehicle and two that PX4's stand-ins fly, in one world.

They see one another, and collide.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.common import data_dir, needs_gl
from tests.support.programs import VIL_BRIDGE, Program
from tests.support.sitl import SitlBridge, sitl_bridge, stand_in, wait_until
from vil_bridge.client import Frame, Receiver
from vil_bridge.core.geometry import q_conj, q_rotate
from vil_simulation.demo.child_processes import free_ports
from vil_simulation.sitl.options import SitlOptions

pytestmark = [pytest.mark.process, pytest.mark.gl]

FIRST_ACTOR = 32768
"""Instance ids of actors begin here."""
ALONE, NEIGHBOUR = "px4_1", "px4_2"


def id_at(frame: Frame, p_m: list[float]) -> int | None:
    """Return the instance id where the picture shows a place of the world; None = outside."""
    pose, (fx, fy, cx, cy) = frame.metadata["pose_rendered"], frame.metadata["K"]
    x, y, z = q_rotate(
        q_conj(np.array(pose["q_xyzw"])), np.array(p_m) - np.array(pose["p_m"])
    ).tolist()
    if z <= 0.0:
        return None
    column, row = round(fx * x / z + cx), round(fy * y / z + cy)
    height, width = frame.image.shape[:2]
    return int(frame.image[row, column]) if 0 <= row < height and 0 <= column < width else None


def seen(bridge: SitlBridge, receiver: Receiver, other: str) -> tuple[int, set[int]]:
    """Return the id of a neighbour, at its place in a picture, and those of all other actors in
    the same picture.
    """
    found: list[tuple[int, set[int]]] = []

    def shows_both() -> bool:
        frame = receiver.next(timeout=1.0)
        if frame is None:
            return False
        own, ids = (
            id_at(frame, bridge.vehicle(other)["p_world_m"]),
            {int(i) for i in np.unique(frame.image) if i >= FIRST_ACTOR},
        )
        if own in ids and len(ids) > 1:
            found.append((own, ids - {own}))
        return bool(found)

    wait_until(shows_both)
    return found[0]


def both(bridge: SitlBridge) -> list[dict[str, Any]]:
    return [bridge.vehicle(subject) for subject in (ALONE, NEIGHBOUR)]


def stepped(bridge: SitlBridge, seconds: float) -> list[dict[str, Any]]:
    """Return both states after a step of a paused world."""
    due = bridge.vehicle(ALONE)["steps"] + 1000 * seconds - 10
    bridge.web.post("/api/v1/simulation/step", json={"seconds": seconds}).raise_for_status()

    def missing() -> object:
        simulation = bridge.web.get("/api/v1/simulation").json()
        return (
            due,
            both(bridge),
            simulation,
            bridge.problem(),
            [bridge.link(name) for name in (ALONE, NEIGHBOUR)],
        )

    wait_until(lambda: min(state["steps"] for state in both(bridge)) >= due, what=missing)
    return both(bridge)


@contextmanager
def flying(bridge: SitlBridge, *flights: str) -> Iterator[None]:
    with ExitStack() as stack:
        for i, flight in enumerate(flights):
            stack.enter_context(
                stand_in("px4", bridge.port + i, "--instance", i, "--flight", flight)
            )
        yield


def meet_in_the_air(bridge: SitlBridge) -> None:
    """The neighbour hovers at the box's first corner.

    On the way there the world goes step by step.
    """
    wait_until(lambda: bridge.vehicle(ALONE)["p_world_m"][0] > 0.2)
    bridge.web.patch("/api/v1/simulation", json={"paused": True}).raise_for_status()
    before = after = both(bridge)
    while [state["collisions"] for state in after] == [state["collisions"] for state in before]:
        after = stepped(bridge, 0.1)
        assert abs(after[0]["p_world_m"][1]) < 0.5, "it has passed the corner"
    begun = [b["collisions"] - a["collisions"] for a, b in zip(before, after, strict=True)]
    assert begun[0] == begun[1] > 0
    assert min(state["p_world_m"][2] for state in after) > 1.0, "in the air, not on the floor"
    assert np.linalg.norm(np.subtract(*(state["p_world_m"] for state in after))) < 1.0


def test_they_see_one_another_and_a_collision_counts_at_both(tmp_path: Path) -> None:
    needs_gl()
    track = data_dir("trajectories") / "tum_freiburg1_xyz-groundtruth.txt"
    pose, image, stream = free_ports(3, socket.SOCK_STREAM)

    def add_cameras_and_recording(data: dict[str, Any]) -> None:
        data["sources"]["sitl"]["vehicles"][NEIGHBOUR]["yaw_deg"] = 180.0  # it faces the other
        data["sources"]["real"] = {
            "type": "motion-file",
            "room": "lab",
            "path": str(track),
            "subject": "real",
        }
        # The recorded vehicle moves beside the line between the two, which are 2 m apart along x.
        data["rooms"]["lab"] = {"T_world_room": {"p_m": [-0.3, 0.1, -1.2]}}
        data["actors"]["real"] = {
            "kind": "vehicle",
            "source": "real",
            "subject": "real",
            "size_m": [0.3, 0.3, 0.1],
        }
        data["renderers"] = {
            "drawn": {"type": "flightgoggles", "pose_port": pose, "image_port": image}
        }
        camera = {
            "renderer": "drawn",
            "width_px": 160,
            "height_px": 120,
            "rate_hz": 10,
            "fov_y_deg": 80,
        }
        camera |= {"modalities": ["instance"], "latency_compensation": "none"}
        data["cameras"] = {f"front_{i}": camera | {"actor": f"px4_{i}"} for i in (1, 2)}
        data["simulation"]["wait_for_cameras"] = True
        data["stream"] = {"bind": f"tcp://127.0.0.1:{stream}"}

    two = SitlOptions(program="px4", indoors=True, speed=4.0, count=2)
    drawing = Program(
        *VIL_BRIDGE, "renderer", "--scene", "empty", "--input-port", pose, "--output-port", image
    )
    wish: Any = {"modality": "instance", "variant": "raw", "encoding": "raw"}
    with (
        drawing,
        sitl_bridge(tmp_path, two, add_cameras_and_recording) as bridge,
        Receiver(f"tcp://127.0.0.1:{stream}", "front_1", **wish) as front_1,
        Receiver(f"tcp://127.0.0.1:{stream}", "front_2", **wish) as front_2,
    ):
        with flying(bridge, "none", "none"):  # they stand on the floor
            neighbour, also_1 = seen(bridge, front_1, NEIGHBOUR)
            alone, also_2 = seen(bridge, front_2, ALONE)
        assert neighbour != alone
        assert also_1 == also_2, "the recorded vehicle is in both pictures"
        with flying(bridge, "box", "hover"):
            meet_in_the_air(bridge)
