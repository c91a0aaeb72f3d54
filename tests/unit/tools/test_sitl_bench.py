"""`vil-bridge bench sitl`.

Its rows and their units, with short flights by peers over real sockets.
"""

from __future__ import annotations

import pytest

from vil_benchmarks import sitl
from vil_benchmarks.sitl_camera import ReadPicture, picture_rows
from vil_benchmarks.sitl_peers import controls_frame
from vil_bridge.core.errors import VilBridgeError
from vil_bridge.protocols.mavlink.framing import MavlinkParser
from vil_bridge.protocols.mavlink.hil_messages import HilActuatorControls
from vil_simulation.source.hosts import ready_simulation

pytestmark = pytest.mark.process


def test_rows() -> None:
    rows = {row.name: row for row in sitl.flight_rows(seconds=0.3, start_s=0.4)}
    assert {name: row.unit for name, row in rows.items()} == {
        "rtf_px4_no_camera": "ratio",
        "rtf_ardupilot_no_camera": "ratio",
        "rtf_four_ardupilot": "ratio",
        "ardupilot_frames_hz": "1/s",
        "peer_us_p50": "us",
        "step_us_p50": "us",
        "px4_exchange_cpu_us": "us",
        "late_steps_share": "share",
    }
    assert all(row.value is not None and row.value >= 0.0 for row in rows.values())
    assert all(rows[name].value for name in rows if name != "late_steps_share")


def test_a_vehicle_that_stands_or_a_silent_peer_has_no_figure() -> None:
    simulation = ready_simulation(sitl.configuration("px4", 1, 4560))
    with pytest.raises(VilBridgeError, match=r"did not fly: it ended at 0\.00 m"):
        sitl.check(simulation, [[1.0] * 500], 250)
    simulation.groups[0].fleets.of_row(0).place(p_world_m=(0.0, 0.0, 1.0))
    with pytest.raises(VilBridgeError, match="answered 249 of 250 samples"):
        sitl.check(simulation, [[1.0] * 249], 250)
    sitl.check(simulation, [[1.0] * 250], 250)


def test_pictures_that_are_skipped_or_of_another_time_have_no_figure() -> None:
    read = [
        ReadPicture(33_333_333 * n, 33_333_333 * n - 3_000_000, 10_000_000 * n) for n in range(40)
    ]
    rows = {row.name: row.value for row in picture_rows(read, 0)}
    assert rows == {
        "rtf_px4_camera_320x240": pytest.approx(10 / 3),
        "picture_behind_sample_ms_max": 3.0,
    }
    with pytest.raises(VilBridgeError, match="1 pictures were skipped"):
        picture_rows(read, 1)
    with pytest.raises(VilBridgeError, match="5 were read"):
        picture_rows(read[:5], 0)
    for wrong_ns in (4_000_000, -1):
        with pytest.raises(VilBridgeError, match="not the sensors' newest sample"):
            picture_rows([*read, read[-1]._replace(t_pose_ns=read[-1].t_ns - wrong_ns)], 0)


def test_the_peers_answer_is_a_message_of_px4() -> None:
    (message,) = MavlinkParser().feed(controls_frame(4_000, 0.5))
    assert message.body == HilActuatorControls(4_000, 1, (0.5,) * 4 + (0.0,) * 12, 129)
