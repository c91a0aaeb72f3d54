"""The vehicle's inertial samples on their way to the bridge, and clock exchanges on a loaded
link.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support.common import wait_until, wait_until_most
from tests.support.stream_rig import PATIENCE_NS, RawClient, StreamRig
from vil_bridge.client import Receiver
from vil_bridge.core.clock import now_ns
from vil_bridge.outputs.stream.messages import MAX_IMU_SAMPLES, ImuReport, decode_request

pytestmark = pytest.mark.wire


def vehicle_ns() -> int:
    """An hour ahead of the bridge, and 100 ppm fast."""
    t_ns = now_ns()
    return t_ns + t_ns // 10_000 + 3600 * 10**9


def bridge_ns(t_vehicle_ns: int) -> int:
    return round((t_vehicle_ns - 3600 * 10**9) / (1 + 1e-4))


def registered(receiver: Receiver) -> None:
    wait_until(lambda: receiver.counters["registrations"] >= 1)


def test_samples_arrive_in_bridge_time_under_the_readers_name() -> None:
    with StreamRig() as rig, Receiver(rig.endpoint, name="drone", clock=vehicle_ns) as receiver:
        registered(receiver)
        sent = []
        for i in range(50):
            t_ns = vehicle_ns()
            sent.append(t_ns)
            receiver.send_imu(t_ns, [0.1 * i, -0.2, 0.3], [0.0, i, 9.81])
        wait_until(lambda: sum(len(w.t_ns) for _, w in rig.inertial) == 50)
        assert {name for name, _ in rig.inertial} == {"drone"}
        times = np.concatenate([w.t_ns for _, w in rig.inertial]).tolist()
        assert all(
            abs(got - bridge_ns(t)) < PATIENCE_NS for got, t in zip(times, sent, strict=True)
        )
        w_radps = np.concatenate([w.w_radps for _, w in rig.inertial])
        f_mps2 = np.concatenate([w.f_mps2 for _, w in rig.inertial])
        assert np.allclose(w_radps, [[0.1 * i, -0.2, 0.3] for i in range(50)], atol=1e-6)
        assert np.allclose(f_mps2, [[0.0, i, 9.81] for i in range(50)], atol=1e-5)
        assert receiver.counters["imu"] == 50 and receiver.counters["imu_dropped"] == 0


def test_the_clocks_uncertainty_covers_most_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """It covers 95 of 100, but samples in a row err alike."""
    with StreamRig() as rig, Receiver(rig.endpoint, name="drone", clock=vehicle_ns) as receiver:
        registered(receiver)
        known, uncertainties_ns, sent = receiver.clock_sync, list[int](), list[int]()
        to_bridge_ns = known.to_bridge_ns

        def noted(t_vehicle_ns: int) -> int:
            uncertainties_ns.append(known.uncertainty_ns(t_vehicle_ns))
            return to_bridge_ns(t_vehicle_ns)

        monkeypatch.setattr(known, "to_bridge_ns", noted)

        def covered() -> bool:
            sent.append(vehicle_ns())
            receiver.send_imu(sent[-1], np.zeros(3), np.zeros(3))
            wait_until(lambda: len(rig.inertial) == len(sent))
            assert len(uncertainties_ns) == len(sent)
            error_ns = abs(int(rig.inertial[-1][1].t_ns[0]) - bridge_ns(sent[-1]))
            return error_ns <= uncertainties_ns[-1] + 10_000

        wait_until_most(covered)


def test_a_block_is_cut_into_messages_and_what_is_too_much_is_dropped() -> None:
    with StreamRig() as rig, Receiver(rig.endpoint) as receiver:
        registered(receiver)
        rng = np.random.default_rng(3)
        t_ns = now_ns() + np.arange(1500) * 1_000_000
        receiver.send_imu(t_ns, rng.normal(size=(1500, 3)) * 30, rng.normal(size=(1500, 3)) * 150)
        wait_until(lambda: receiver.counters["imu"] == 1500)
        wait_until(lambda: sum(len(w.t_ns) for _, w in rig.inertial) == 1500)
        assert max(len(w.t_ns) for _, w in rig.inertial) <= MAX_IMU_SAMPLES
        assert len(rig.inertial) >= 5
        assert np.all(np.diff(np.concatenate([w.t_ns for _, w in rig.inertial])) > 0)
    with Receiver("tcp://127.0.0.1:1") as alone:
        for _ in range(3):
            alone.send_imu(np.arange(1000), np.zeros((1000, 3)), np.zeros((1000, 3)))
        assert alone.counters["imu_dropped"] == 3000 - 2048, "bounded without a bridge"


def test_nonsense_is_refused_where_it_is_made() -> None:
    with Receiver("tcp://127.0.0.1:1") as receiver:
        for bad in (float("nan"), float("inf")):
            with pytest.raises(ValueError, match="finite"):
                receiver.send_imu(1, [0, 0, bad], [0, 0, 9.81])
        with pytest.raises(ValueError):
            receiver.send_imu([1, 2], [0, 0, 0], [0, 0, 9.81])


@pytest.mark.parametrize(
    ("t_ns", "w", "f"),
    [
        ([1, 2], [[0, 0, 0]], [[0, 0, 0]] * 2),
        ([1, 2], [[0, 0, 0]] * 2, [[0, 0, 0]]),
        ([2, 1], [[0, 0, 0]] * 2, [[0, 0, 0]] * 2),
        ([1, 1], [[0, 0, 0]] * 2, [[0, 0, 0]] * 2),
        ([1], [[0, 0]], [[0, 0, 0]]),
        ([1], [[0, 0, 0, 0]], [[0, 0, 0]]),
        ([1], [[0, "x", 0]], [[0, 0, 0]]),
        ([1.5], [[0, 0, 0]], [[0, 0, 0]]),
        ([2**63], [[0, 0, 0]], [[0, 0, 0]]),
        (list(range(513)), [[0, 0, 0]] * 513, [[0, 0, 0]] * 513),
    ],
)
def test_hostile_samples_are_counted(
    t_ns: list[int], w: list[list[float]], f: list[list[float]]
) -> None:
    with StreamRig() as rig, RawClient(rig.endpoint) as client:
        token = client.ask(type="register", v=1, camera="front")["token"]
        client.say(type="imu", token=token, t_ns=t_ns, w_radps=w, f_mps2=f)
        client.say(type="imu", token="nobody", t_ns=[1], w_radps=[[0, 0, 0]], f_mps2=[[0, 0, 0]])
        client.say(type="imu", token=token, t_ns=[], w_radps=[], f_mps2=[])
        client.say(type="imu", token=token, t_ns=[5], w_radps=[[1, 2, 3]], f_mps2=[[4, 5, 6]])
        wait_until(lambda: rig.inertial)
        assert (rig.hub.counters["malformed"], rig.hub.counters["stray"]) == (1, 1)
        assert [w.w_radps.tolist() for _, w in rig.inertial] == [[[1.0, 2.0, 3.0]]]


def test_two_readers_of_one_name_do_not_mix_their_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vil_bridge.outputs.stream.reader_registry._PRESENT_NS", PATIENCE_NS)
    one = {"w_radps": [[0, 0, 0]], "f_mps2": [[0, 0, 9.81]]}
    with StreamRig() as rig, RawClient(rig.endpoint) as mine, RawClient(rig.endpoint) as other:
        my_token, its_token = (
            client.ask(type="register", v=1, camera="front", name="drone")["token"]
            for client in (mine, other)
        )
        mine.say(type="imu", token=my_token, t_ns=[1], **one)
        wait_until(lambda: len(rig.inertial) == 1)
        other.say(type="imu", token=its_token, t_ns=[2], **one)
        wait_until(lambda: rig.hub.counters["rival"] == 1)
        mine.say(type="imu", token=my_token, t_ns=[3], **one)
        wait_until(lambda: len(rig.inertial) == 2)
        mine.say(type="unregister", token=my_token)
        mine.ask(type="ping", t1=0)
        # At once, the first having said goodbye.
        other.say(type="imu", token=its_token, t_ns=[4], **one)
        wait_until(lambda: len(rig.inertial) == 3)
        assert [window.t_ns.tolist() for _, window in rig.inertial] == [[1], [3], [4]]


def test_a_reader_that_came_again_without_a_goodbye_is_heard_soon() -> None:
    one = {"w_radps": [[0, 0, 0]], "f_mps2": [[0, 0, 9.81]]}
    with StreamRig() as rig, RawClient(rig.endpoint) as before, RawClient(rig.endpoint) as after:
        token = before.ask(type="register", v=1, camera="front", name="drone")["token"]
        before.say(type="imu", token=token, t_ns=[1], **one)
        wait_until(lambda: len(rig.inertial) == 1)
        token = after.ask(type="register", v=1, camera="front", name="drone")["token"]

        def heard() -> bool:
            after.say(type="imu", token=token, t_ns=[2], **one)
            return len(rig.inertial) > 1

        wait_until(heard, period_s=0.05)


def test_the_fullest_message_fits() -> None:
    n = MAX_IMU_SAMPLES
    sample = [-1234.5678901] * 3
    message = {"type": "imu", "token": "x" * 32, "t_ns": [2**62 + i for i in range(n)]}
    payload = json.dumps(
        {**message, "w_radps": [sample] * 256, "f_mps2": [sample] * 256}
        | {"t_ns": message["t_ns"][:256]}
    )
    request = decode_request(payload.encode())
    assert isinstance(request, ImuReport) and request.window().w_radps.shape == (256, 3)
    assert len(payload) < 64 * 1024
