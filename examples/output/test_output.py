"""The output sends real datagrams: run ``pytest`` in this folder."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
import yaml
from vil_example.config import ExampleConfig
from vil_example.output import ExampleOutput

from tests.support.bridge_rig import running
from tests.support.extensions import make_known, readme_configuration
from tests.support.outputs import INFO, Flight, header, picture, wall_offset_ns
from vil_bridge.core.clock import now_ns
from vil_bridge.protocols.sockets import udp_socket

PACKAGE = Path(__file__).parent


@pytest.fixture
def receiver() -> Iterator[socket.socket]:
    """Return a socket on a free port that takes what the output sends."""
    with udp_socket("127.0.0.1") as opened:
        yield opened


def output_to(receiver: socket.socket, **keys: Any) -> ExampleOutput:
    """Return the output, sending to a socket."""
    return ExampleOutput("mine", ExampleConfig(port=receiver.getsockname()[1], **keys))


async def received(receiver: socket.socket) -> bytes:
    """Return the next datagram."""
    return await asyncio.get_running_loop().sock_recv(receiver, 65536)


async def test_each_measured_pose_is_sent_once(receiver: socket.socket) -> None:
    """Poses are those of the flight, at their own times."""
    flight = Flight()
    async with flight.flying(output_to(receiver, actors=("drone",))):
        # TODO: read the system's bytes as its own client does.
        poses = [json.loads(await received(receiver)) for _ in range(10)]
        offset_ns = wall_offset_ns()
    assert all(before["t_utc_ns"] < after["t_utc_ns"] for before, after in pairwise(poses))
    for pose in poses:
        truth = flight.pose(pose["t_utc_ns"] - offset_ns)
        assert pose["actor"] == "drone"
        np.testing.assert_allclose(pose["p_world_m"], truth.p_m, atol=0.002)
        np.testing.assert_allclose(pose["q_world_body"], truth.q_xyzw, atol=0.002)


async def test_a_picture_is_sent(receiver: socket.socket) -> None:
    """A receiver sees what the camera saw."""
    output = output_to(receiver, cameras=("front",))
    sink = output.frame_sink(INFO)
    assert sink is not None
    sink.offer(header(7, now_ns()), picture(7))
    head, _, jpeg = (await received(receiver)).partition(b"\n")
    output.close()
    described = json.loads(head)
    assert (described["camera"], described["frame_id"]) == ("front", 7)
    assert np.abs(simplejpeg.decode_jpeg(jpeg).astype(int) - picture(7)).mean() < 2.0


async def test_a_bridge_runs_it(
    receiver: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration of the README sends poses."""
    make_known(PACKAGE, tmp_path, monkeypatch)
    config = readme_configuration(PACKAGE)
    config["outputs"]["mine"]["port"] = receiver.getsockname()[1]
    async with running(yaml.safe_dump(config)):
        assert json.loads(await received(receiver))["actor"] == "drone"
