"""Events of the embedded renderer for Flightmare's event cameras."""

from __future__ import annotations

from tests.support.embedded import CAMERA, looking, prop, renderer, view
from vil_bridge.core.types import WorldSnapshot
from vil_renderer.embedded.servers.flightmare import FlightmareServer
from vil_renderer.flightmare.messages import EventCameraMessage

_CAMERA = EventCameraMessage(
    ID="e",
    width=CAMERA.width_px,
    height=CAMERA.height_px,
    fov=70.0,
    T_BC=[0.0] * 16,
    Cp=0.15,
    Cm=0.15,
)


def test_a_box_that_moves_sideways_makes_events_at_its_edges_only() -> None:
    server = FlightmareServer(lambda _: renderer("empty"), "empty")
    asked = view(looking((0.0, 0.0, 1.5)))

    def seen(y_m: float, t_ns: int) -> list[tuple[int, int]]:
        snapshot = WorldSnapshot(t_ns, (prop("box", (4.0, y_m, 1.5), (0.5, 0.5, 0.5)),))
        (image,) = server.renderer.render((asked,), snapshot)
        found = server.events(image, _CAMERA, snapshot)
        assert all(t_ns - 1000 < e.time <= t_ns and e.polarity in (-1, 1) for e in found)
        return [(e.coord_x, e.coord_y) for e in found]

    assert seen(0.0, 1000) == [], "there is nothing to compare the first picture with"
    moved = seen(0.02, 2000)
    # The near face spans 0.5 m at 3.75 m; it moved 1.8 px to the left.
    half = 0.25 / 3.75 * CAMERA.f_px
    assert len(moved) > 50
    assert all(abs(x - 319.5) < half + 25 and abs(y - 239.5) < half + 35 for x, y in moved)
    assert seen(0.02, 3000) == [], "nothing moved"
