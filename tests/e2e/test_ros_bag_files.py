"""Bags of both generations, read by ROS 1's own library and by mcap-ros2-support."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import json
import subprocess
import sys
import threading
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg

from tests.support.events import until
from tests.support.outputs import CAMERA, INFO, Flight, header, picture
from tests.support.programs import Program, run
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import SinkError
from vil_bridge.core.geometry import Transform
from vil_bridge.runtime.supervisor import Status

pytest.importorskip("rosbags")
pytest.importorskip("mcap_ros2")

from mcap.exceptions import EndOfFile
from mcap.reader import make_reader
from mcap.records import Message
from mcap.stream_reader import StreamReader
from mcap_ros2.decoder import DecoderFactory

from vil_bridge.outputs.ros.bag import BagThread, RosBagOutput
from vil_bridge.outputs.ros.config import RosBagConfig
from vil_bridge.outputs.ros.topics import RosFeed
from vil_bridge.protocols.ros_messages import TransformLink
from vil_bridge.protocols.ros_topics import Topic

PYTHON = Path("/usr/bin/python3")
FRAMES = 12
_READ_ROS1 = """
import base64, json, sys, rosbag
for topic, m, t in rosbag.Bag(sys.argv[1]).read_messages():
    row = {"topic": topic, "type": m._type, "logged": t.to_nsec()}
    if hasattr(m, "header"):
        row.update(stamp=m.header.stamp.to_nsec(), frame=m.header.frame_id)
    if m._type == "nav_msgs/Odometry":
        p, q = m.pose.pose.position, m.pose.pose.orientation
        row.update(p=[p.x, p.y, p.z], q=[q.x, q.y, q.z, q.w], child=m.child_frame_id)
    if m._type == "sensor_msgs/Imu":
        w, f = m.angular_velocity, m.linear_acceleration
        row.update(w=[w.x, w.y, w.z], f=[f.x, f.y, f.z], cov=list(m.orientation_covariance))
    if m._type in ("sensor_msgs/Image", "sensor_msgs/CompressedImage"):
        row.update(data=base64.b64encode(bytes(m.data)).decode())
    if m._type == "sensor_msgs/CameraInfo":
        row.update(K=list(m.K), D=list(m.D), size=[m.width, m.height], model=m.distortion_model)
    if m._type == "tf2_msgs/TFMessage":
        row.update(child=m.transforms[0].child_frame_id, frame=m.transforms[0].header.frame_id)
    print(json.dumps(row))
"""


def counted(status: Status, what: str, count: int) -> bool:
    return status.counters[what] >= count


async def recorded(path: Path) -> tuple[Flight, Path]:
    """A short flight with pictures, recorded and finished as a bridge that ends does."""
    flight = Flight()
    config = RosBagConfig(
        path=path, cameras=("front",), actors=("drone",), images=("compressed", "raw")
    )
    output = RosBagOutput("rec", config)
    sink = output.frame_sink(INFO)
    assert sink is not None
    assert not sink.wanted("rgb", "compensated")
    async with flight.flying(output):
        await until(lambda: output.status.counters["poses"] >= 1)
        assert sink.wanted("rgb", "compensated")
        for frame in range(FRAMES):
            sink.offer(header(frame, now_ns()), picture(frame))
            await until(functools.partial(counted, output.status, "sent", frame + 1))
        await until(lambda: output.status.counters["poses"] >= 10)
    counters = output.status.counters
    assert counters["lost"] == 0
    assert counters["messages"] == 1 + 3 * FRAMES + 2 * counters["poses"] + counters["inertial"]
    return flight, Path(output.status.facts["path"])


def check_stamps(rows: list[dict[str, Any]]) -> None:
    by_topic = defaultdict(list)
    for row in rows:
        by_topic[row["topic"]].append(row)
    for topic, of_topic in by_topic.items():
        stamps = [row["stamp"] for row in of_topic if "stamp" in row]
        assert all(a < b for a, b in pairwise(stamps)), topic
        assert all(row["stamp"] <= row["logged"] for row in of_topic if "stamp" in row)
    expected = {"/vil/drone/odom", "/vil/drone/imu/data_raw", "/tf", "/tf_static"}
    expected |= {
        "/vil/front/image_raw",
        "/vil/front/image_raw/compressed",
        "/vil/front/camera_info",
    }
    assert set(by_topic) == expected
    assert len(by_topic["/vil/front/image_raw"]) == FRAMES


def check_values(rows: list[dict[str, Any]], flight: Flight) -> None:
    by_topic = defaultdict(list)
    for row in rows:
        by_topic[row["topic"]].append(row)
    first = by_topic["/vil/drone/odom"][0]
    t0 = min(flight.filmed_ns, key=lambda t: abs(np.array(first["p"]) - flight.pose(t).p_m).max())
    filmed = {t_ns + first["stamp"] - t0: t_ns for t_ns in flight.filmed_ns}
    for row in by_topic["/vil/drone/odom"]:
        truth = flight.pose(filmed[row["stamp"]])
        assert row["p"] == truth.p_m.tolist()
        np.testing.assert_allclose(row["q"], truth.q_xyzw, atol=1e-12)
        assert (row["frame"], row["child"]) == ("world", "drone/base_link")
    felt_ns = np.array(list(flight.imu)) + first["stamp"] - t0
    inertial_ns = np.array([row["stamp"] for row in by_topic["/vil/drone/imu/data_raw"]])
    begun = int(np.abs(felt_ns - inertial_ns[0]).argmin())
    ended = begun + len(inertial_ns)
    # Every one, less the lateness.
    np.testing.assert_allclose(inertial_ns, felt_ns[begun:ended], rtol=0, atol=1e5)
    samples = list(flight.imu.values())[begun:ended]
    for row, (w_radps, f_mps2) in zip(by_topic["/vil/drone/imu/data_raw"], samples, strict=True):
        assert (row["w"], row["f"], row["cov"][0]) == (w_radps.tolist(), f_mps2.tolist(), -1.0)
    for frame, row in enumerate(by_topic["/vil/front/image_raw"]):
        np.testing.assert_array_equal(
            np.frombuffer(row["data"], np.uint8).reshape(48, 64, 3), picture(frame)
        )
    for frame, row in enumerate(by_topic["/vil/front/image_raw/compressed"]):
        decoded = simplejpeg.decode_jpeg(row["data"]).astype(int)
        assert np.abs(decoded - picture(frame)).mean() < 2.0
    info = by_topic["/vil/front/camera_info"][0]
    assert info["K"] == CAMERA.K.reshape(-1).tolist()
    assert (info["size"], info["model"]) == ([64, 48], "plumb_bob")
    (static,) = by_topic["/tf_static"]
    assert (static["frame"], static["child"]) == ("drone/base_link", "front_optical")


def ros1(program: str, path: Path) -> str:
    """What a program says that runs with ROS 1's library, in the system's Python."""
    if (
        not PYTHON.exists()
        or subprocess.run(
            [PYTHON, "-c", "import rosbag"], capture_output=True, timeout=60.0
        ).returncode
    ):
        pytest.skip("no ROS 1 library: apt-get install python3-rosbag")
    done = run(PYTHON, "-c", program, path)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.process
async def test_a_ros1_bag_read_by_ros1(tmp_path: Path) -> None:
    flight, path = await recorded(tmp_path / "deep" / "run.bag")
    rows = [
        json.loads(line) for line in (await asyncio.to_thread(ros1, _READ_ROS1, path)).splitlines()
    ]
    for row in rows:
        if "data" in row:
            row["data"] = base64.b64decode(row["data"])
    check_stamps(rows)
    check_values(rows, flight)


def read_mcap(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    with path.open("rb") as stream:
        for told in make_reader(
            stream, decoder_factories=[DecoderFactory()]
        ).iter_decoded_messages():
            assert told.schema is not None
            rows.append(
                row_of(
                    told.schema.name,
                    told.channel.topic,
                    told.message.log_time,
                    told.decoded_message,
                )
            )
    return rows


def row_of(kind: str, topic: str, t_logged_ns: int, m: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"topic": topic, "logged": t_logged_ns}
    if hasattr(m, "header"):
        stamp = m.header.stamp
        row |= {"stamp": stamp.sec * 10**9 + stamp.nanosec, "frame": m.header.frame_id}
    if kind == "nav_msgs/msg/Odometry":
        p, q = m.pose.pose.position, m.pose.pose.orientation
        row |= {"p": [p.x, p.y, p.z], "q": [q.x, q.y, q.z, q.w], "child": m.child_frame_id}
    if kind == "sensor_msgs/msg/Imu":
        w, f = m.angular_velocity, m.linear_acceleration
        row |= {"w": [w.x, w.y, w.z], "f": [f.x, f.y, f.z], "cov": list(m.orientation_covariance)}
    if kind in ("sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"):
        row |= {"data": bytes(m.data)}
    if kind == "sensor_msgs/msg/CameraInfo":
        row |= {
            "K": list(m.k),
            "D": list(m.d),
            "size": [m.width, m.height],
            "model": m.distortion_model,
        }
    if kind == "tf2_msgs/msg/TFMessage":
        link = m.transforms[0]
        row |= {"child": link.child_frame_id, "frame": link.header.frame_id}
    return row


async def test_a_ros2_bag_read_by_mcap_ros2_support(tmp_path: Path) -> None:
    flight, path = await recorded(tmp_path / "run")
    rows = await asyncio.to_thread(read_mcap, path / "run.mcap")
    check_stamps(rows)
    check_values(rows, flight)
    described = (path / "metadata.yaml").read_text()
    assert "storage_identifier: mcap" in described
    assert f"message_count: {len(rows)}" in described


async def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run.bag").write_text("precious")
    _, path = await recorded(tmp_path / "run.bag")
    assert path == tmp_path / "run-2.bag"
    assert (tmp_path / "run.bag").read_text() == "precious"


def bag_of(
    path: Path, status: Status, file_bytes: int = 1 << 30
) -> tuple[BagThread, RosFeed, Topic]:
    config = RosBagConfig(path=path, actors=("drone",))
    feed = RosFeed(
        config, "noetic" if path.suffix else "jazzy", lambda _topic, _message: None, status
    )
    feed.watch(Flight().world)
    topic = Topic("/vil/drone/imu/data_raw", "sensor_msgs/msg/Imu")
    return (
        BagThread(path, feed.topics(), feed.messages.store, feed.wall_clock, status, file_bytes),
        feed,
        topic,
    )


def test_what_a_slow_disk_cannot_take_is_counted_and_memory_is_bounded(tmp_path: Path) -> None:
    status = Status("rec")
    bag, _, topic = bag_of(tmp_path / "run.bag", status)
    write = bag._writer.write
    go_on = threading.Event()

    def slow(*what: Any) -> None:
        assert go_on.wait(60.0)
        write(*what)

    bag._writer.write = slow  # type: ignore[method-assign,assignment]
    for _ in range(100):
        bag.enqueue(topic, memoryview(bytes(1 << 20)))
    assert bag._queue.total <= 64 << 20
    assert status.counters["lost"] >= 35
    go_on.set()
    bag.close()
    bag._thread.join(60.0)  # a close waits no longer than 1.5 s for a slow disk
    assert status.counters["messages"] + status.counters["lost"] == 100


def test_a_new_file_for_each_gigabyte(tmp_path: Path) -> None:
    status = Status("rec")
    bag, feed, topic = bag_of(tmp_path / "run", status, file_bytes=2500)
    static = next(t for t in feed.topics() if t.latched)
    bag.enqueue(
        static, feed.messages.transforms(1, [TransformLink("world", "a", Transform.identity())])
    )
    for n in range(20):
        bag.enqueue(topic, feed.messages.imu(n, "imu", np.zeros(3), np.zeros(3)))
    bag.close()
    files = sorted(tmp_path.glob("run*/*.mcap"), key=lambda path: (len(path.name), path.name))
    assert [path.name for path in files] == ["run.mcap", "run-2.mcap", "run-3.mcap"]
    read = [read_mcap(path) for path in files]
    assert [rows[0]["topic"] for rows in read] == ["/tf_static"] * 3
    assert [row["stamp"] for rows in read for row in rows[1:]] == list(range(20))
    assert status.counters == {"messages": 21}


def test_a_folder_that_cannot_be_had(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="cannot create"):
        bag_of(tmp_path / "file" / "run.bag", Status("rec"))
    with pytest.raises(ValueError, match=r"NAME\.bag"):
        RosBagConfig(path=tmp_path / "run.mcap")


_RECORD = """
import sys, time
from pathlib import Path
import numpy as np
from tests.e2e.test_ros_bag_files import bag_of
from vil_bridge.core.geometry import Transform
from vil_bridge.runtime.supervisor import Status
status = Status("rec")
bag, feed, topic = bag_of(Path(sys.argv[1]), status)
sample = feed.messages.imu(1, "imu", np.zeros(3), np.zeros(3))
while True:
    for _ in range(500):
        bag.enqueue(topic, sample)
    time.sleep(0.01)
    print(status.counters["messages"], flush=True)
"""
_REINDEX_ROS1 = """
import sys, rosbag, rosbag.rosbag_main
path = sys.argv[1]
sys.argv = ["rosbag", "reindex", "-q", path]
rosbag.rosbag_main.rosbagmain()
print(rosbag.Bag(path).get_message_count())
"""
_FILL = """
import asyncio, resource, signal, sys, threading
from pathlib import Path
from tests.e2e.test_ros_bag_files import *
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))
async def main() -> None:
    flight = Flight()
    output = RosBagOutput("rec", RosBagConfig(path=Path(sys.argv[1]), actors=("drone",)))
    topic, sample = Topic("/tf", "tf2_msgs/msg/TFMessage"), memoryview(bytes(1 << 18))
    for attempt in range(2):
        run = asyncio.create_task(output.run(flight.world))
        while not run.done():
            output._emit(topic, sample)
            await asyncio.sleep(0.005)
        print(output.status.facts["path"], run.exception())
    output.close()
asyncio.run(main())
"""
CHUNK_BYTES = 1 << 20
IMU_BYTES = 300
"""Of one message, at least."""


@pytest.mark.process
@pytest.mark.parametrize("name", ["run", "run.bag"])
def test_killed_while_recording(tmp_path: Path, name: str) -> None:
    """All but the newest two megabytes are there, in a ROS 1 bag once its index is made anew."""
    path = tmp_path / name
    with Program(sys.executable, "-c", _RECORD, path) as child:
        written = int(child.await_text(r"^(9\d{3}|\d{5,})\n")[1])
        child.kill()
    found = (
        int(ros1(_REINDEX_ROS1, path)) if path.suffix else count_left(path / f"{path.name}.mcap")
    )
    assert found >= written - 1 - 2 * CHUNK_BYTES // IMU_BYTES


@pytest.mark.process
@pytest.mark.parametrize("name", ["run", "run.bag"])
def test_a_full_disk_is_told_and_tried_again(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    command = [sys.executable, "-c", _FILL, str(path)]
    done = run(*command)
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    sibling = path.with_name(f"{path.stem}-2{path.suffix}")
    assert first.startswith(f"{path} ") and second.startswith(f"{sibling} ")
    assert "File too large" in first and "File too large" in second


def count_left(path: Path) -> int:
    """Messages in a file that has no end."""
    count = 0
    with path.open("rb") as stream, contextlib.suppress(EndOfFile):
        for record in StreamReader(stream).records:
            count += isinstance(record, Message)
    return count
