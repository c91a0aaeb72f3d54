"""Names that ROS cannot tell apart are refused in words, live and in exports."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("rosbags")

from vil_bridge import registry
from vil_bridge.assembly.recorded import recording_metadata
from vil_bridge.config.load import load_text
from vil_bridge.core.errors import RecordingError, SinkError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.sensor_readings import SensorDescription
from vil_bridge.core.types import ActorKind
from vil_bridge.offline.export import export
from vil_bridge.outputs.ros.config import RosBagConfig
from vil_bridge.outputs.ros.topics import RosFeed
from vil_bridge.protocols.ros_names import same_in_ros
from vil_bridge.recording.recorder import Recorder
from vil_bridge.runtime.supervisor import Status
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World


def topics_of(tmp_path: Path, *sensors: str) -> list[str]:
    """Topics of a drone with these sensors."""
    described = {name: SensorDescription("barometer") for name in sensors}
    drone = Actor("drone", ActorKind.VEHICLE, "sim", "quad", sensors=described)
    world = World({"sim": Transform.identity()}, [drone])
    config = RosBagConfig(path=tmp_path / "flight", actors=("drone",))
    feed = RosFeed(config, "jazzy", lambda _topic, _message: None, Status("ros"))
    feed.watch(world)
    return [topic.name for topic in feed.topics()]


def test_sensors_whose_topics_are_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SinkError, match="sensors baro-2 and baro_2 of drone become one topic in ROS"
    ):
        topics_of(tmp_path, "baro-2", "baro_2")
    with pytest.raises(SinkError, match="sensor base of drone has the frame of its body in ROS"):
        topics_of(tmp_path, "base")
    names = topics_of(tmp_path, "baro-2", "baro_3", "Base")
    assert names[2:5] == [
        "/vil/drone/sensors/baro_2",
        "/vil/drone/sensors/baro_3",
        "/vil/drone/sensors/Base",
    ]


def test_the_first_two_names_that_become_one() -> None:
    assert same_in_ros(["a-b", "c", "a_b", "a-b"]) == ("a-b", "a_b")
    assert same_in_ros(["a-b", "a-c", "ab"]) is None


@pytest.mark.parametrize(
    ("subjects", "said"),
    [
        ({"a-b": "quad", "a_b": "odd"}, "actors"),
        ({"drone": "odd"}, "sensors of drone"),
    ],
)
def test_an_export_does_not_mix_what_ros_cannot_tell_apart(
    tmp_path: Path, subjects: dict[str, str], said: str
) -> None:
    actors = [
        f"  {name}: {{kind: vehicle, source: sim, subject: {subject}}}"
        for name, subject in subjects.items()
    ]
    text = """
version: 1
rooms: {hall: {}}
sources:
  sim:
    type: simulated
    room: hall
    vehicles:
      quad: {model: flightgoggles}
      odd: {model: flightgoggles, sensors: {a-b: {type: gps}, a_b: {type: rotors}}}
actors:
"""
    facts = recording_metadata(
        load_text(text + "\n".join(actors), "bridge.yaml", resolve=registry.resolve), 0
    )
    recorder = Recorder(tmp_path / "flight.mcap", facts, lambda _event: None)
    recorder.stop(5.0)
    with pytest.raises(RecordingError, match=f"{said}: a-b and a_b become one topic in ROS"):
        export(tmp_path / "flight.mcap", "ros2", tmp_path / "out")
    assert not (tmp_path / "out").exists()
