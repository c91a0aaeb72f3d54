"""An independent zenoh session that reads as rmw_zenoh's nodes would, and a router for it."""

from __future__ import annotations

import json
import socket
import struct
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import zenoh

from vil_simulation.demo.child_processes import free_ports

# As the definitions of ROS 2 Jazzy have them; four of them also stand in the transport notes of
# this project.
HASHES = {
    "sensor_msgs::msg::dds_::CompressedImage_": "15640771531571185e2efc8a100baf923961a4d15d5569652e"
    "6cb6691e8e371a",
    "sensor_msgs::msg::dds_::Image_": "d31d41a9a4c4bc8eae9be757b0beed306564f7526c88ea6a4588fb95825"
    "27d47",
    "sensor_msgs::msg::dds_::Imu_": "7d9a00ff131080897a5ec7e26e315954b8eae3353c3f995c55faf715740"
    "00b5b",
    "sensor_msgs::msg::dds_::CameraInfo_": "b3dfd68ff46c9d56c80fd3bd4ed22c7a4ddce8c8348f2f59c299e73"
    "118e7e275",
    "nav_msgs::msg::dds_::Path_": "1957a5bb3cee5da65c4e52e52b65a93df227efce4c20f8458b36e73066c"
    "a334b",
    "nav_msgs::msg::dds_::Odometry_": "3cc97dc7fb7502f8714462c526d369e35b603cfc34d946e3f2eda2766df"
    "ec6e0",
    "tf2_msgs::msg::dds_::TFMessage_": "e369d0f05a23ae52508854b66f6aa0437f3449d652e8cbf22d5abe85d02"
    "0f087",
    "sensor_msgs::msg::dds_::FluidPressure_": "22dfb2b145a0bd5a31a1ac3882a1b32148b51d9b2f3bab250290"
    "d66f3595bc32",
    "sensor_msgs::msg::dds_::MagneticField_": "e80f32f56a20486c9923008fc1a1db07bbb273cbbf6a5b3bfa00"
    "835ee00e4dff",
    "sensor_msgs::msg::dds_::NavSatFix_": "62223ab3fe210a15976021da7afddc9e200dc9ec75231c1b6a557fc5"
    "98a65404",
    "rosgraph_msgs::msg::dds_::Clock_": "692f7a66e93a3c83e71765d033b60349ba68023a8c689a79e48078bcb5"
    "c58564",
    "geometry_msgs::msg::dds_::PoseArray_": "af0cc36d190e104d546d168d6b39df04fa4b4ccecf59cb4c9ed328"
    "d3d5004aa0",
    "sensor_msgs::msg::dds_::Range_": "b42b62562e93cbfe9d42b82fe5994dfa3d63d7d5c90a317981703f7388a"
    "dff3a",
    "sensor_msgs::msg::dds_::PointCloud2_": "9198cabf7da3796ae6fe19c4cb3bdd3525492988c70522628af5da"
    "a124bae2b5",
    "geometry_msgs::msg::dds_::TwistStamped_": "5f0fcd4f81d5d06ad9b4c4c63e3ea51b82d6ae4d0558f1d4752"
    "29b1121db6f64",
    "geometry_msgs::msg::dds_::PoseStamped_": "10f3786d7d40fd2b54367835614bff85d4ad3b5dab62bf8bca0c"
    "c232d73b4cd8",
    "sensor_msgs::msg::dds_::JointState_": "a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882b"
    "c9179260e",
}
ATTACHMENT = struct.Struct("<qqB16s")


def opened(**settings: object) -> Any:
    config = zenoh.Config()
    for key, value in ({"scouting__multicast__enabled": False} | settings).items():
        config.insert_json5(key.replace("__", "/"), json.dumps(value))
    return zenoh.open(config)


@contextmanager
def router() -> Iterator[str]:
    """Stands in for rmw_zenohd; its endpoint."""
    place = f"tcp/127.0.0.1:{free_ports(1, socket.SOCK_STREAM)[0]}"
    with opened(mode="router", listen__endpoints=[place]):
        yield place


class Reader:
    """A session that reads everything."""

    def __init__(self, place: str) -> None:
        self.samples: dict[str, list[Any]] = defaultdict(list)
        self.session = opened(mode="peer", connect__endpoints=[place])
        self.tokens: set[str] = set()
        self._liveliness = self.session.liveliness().declare_subscriber(
            "@ros2_lv/**", self._token, history=True
        )
        self._subscriber = self.session.declare_subscriber(
            "0/**", lambda s: self.samples[str(s.key_expr)].append(s)
        )

    def _token(self, sample: Any) -> None:
        change = self.tokens.add if sample.kind == zenoh.SampleKind.PUT else self.tokens.discard
        change(str(sample.key_expr))

    def of(self, topic: str, kind: type[Any]) -> list[Any]:
        """All messages of a topic."""
        found = [
            samples
            for key, samples in tuple(self.samples.items())
            if key.rsplit("/", 2)[0] == f"0/{topic}"
        ]
        assert len(found) <= 1
        return [
            kind.deserialize(sample.payload.to_bytes())
            for samples in found
            for sample in tuple(samples)
        ]


@contextmanager
def reader(place: str) -> Iterator[Reader]:
    made = Reader(place)
    try:
        yield made
    finally:
        made.session.close()
