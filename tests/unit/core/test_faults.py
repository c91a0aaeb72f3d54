"""The fault switches: what their text means, and that what they do is what they count."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from vil_bridge.config.base import SourceConfigBase
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import q_from_euler_zyx, q_rotate
from vil_bridge.core.types import BoolArray, FloatArray, Markers, SkeletonFrame, SkeletonModel
from vil_bridge.interfaces.faults import (
    REORDER_NS,
    Delivery,
    Episode,
    Faults,
    SubjectEpisode,
    SubjectFaults,
)

S = 1_000_000_000
MS = 1_000_000


# --- the text -----------------------------------------------------------------------------------


def test_every_switch_is_read() -> None:
    text = (
        "loss=5%, duplicate=1%,reorder=0.5%,garbage=2%,delay=20ms±5,jitter=2ms,"
        "drift=-50ppm,step=100ms@30s,"
        "step=-1s,halfopen=2s@3s,burst=100ms@1s/2s,restart=1s,occlude=drone:1s@5s/30s,"
        "flip=cf 1:50ms@0s,"
        "swap=a+b:1min@1s/2min,seed=9"
    )
    assert Faults.parse(text) == Faults(
        loss=0.05,
        duplicate=0.01,
        reorder=0.005,
        garbage=0.02,
        delay_ns=20 * MS,
        delay_sd_ns=5 * MS,
        jitter_ns=2 * MS,
        drift_ppm=-50.0,
        steps=((100 * MS, 30 * S), (-S, 5 * S)),
        halfopen=(Episode(2 * S, 3 * S),),
        burst=(Episode(100 * MS, S, 2 * S),),
        restart=(Episode(S, 5 * S),),
        occlude=(SubjectEpisode(("drone",), Episode(S, 5 * S, 30 * S)),),
        flip=(SubjectEpisode(("cf 1",), Episode(50 * MS, 0)),),
        swap=(SubjectEpisode(("a", "b"), Episode(60 * S, S, 120 * S)),),
        seed=9,
    )
    assert Faults.parse("") == Faults.parse(" , ") == Faults()
    assert Faults.parse("delay=1.5s+-200ms") == Faults(delay_ns=1500 * MS, delay_sd_ns=200 * MS)
    assert Faults.parse("delay=20ms") == Faults(delay_ns=20 * MS)


@pytest.mark.parametrize(
    ("item", "cure"),
    [
        ("lost=5%", "no such fault (did you mean 'loss'?); known: loss, duplicate"),
        ("weather=bad", "no such fault; known: loss"),
        ("loss=5", "write a share such as 5%"),
        ("loss=101%", "write a share such as 5%"),
        ("loss", "write a share such as 5%"),
        ("delay=20", "'20' is not a time; write 20ms or 1.5s"),
        ("delay=-1ms", "'-1ms' must not be negative"),
        ("jitter=fast", "'fast' is not a time"),
        ("drift=50", "write parts per million, such as 50ppm"),
        ("step=5", "'5' is not a time"),
        ("occlude=1s", "write NAME:1s"),
        ("swap=a:1s", "write NAME+NAME:1s"),
        ("swap=a+:1s", "write NAME+NAME:1s"),
        ("halfopen=2s/1s", "its period must be longer than its duration"),
        ("restart=1s@", "'' is not a time"),
        ("seed=one", "write a whole number"),
    ],
)
def test_a_wrong_item_is_named_with_its_cure(item: str, cure: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Faults.parse(f"loss=1%,{item}")
    (problem,) = caught.value.problems
    assert problem.startswith(f"fault {item!r}: {cure}")


def test_all_wrong_items_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Faults.parse("loss=x,delay=20ms,drift=y")
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "fault 'loss=x'",
        "fault 'drift=y'",
    ]


def test_a_configuration_refuses_wrong_faults_and_restarts_of_what_is_not_ours() -> None:
    assert SourceConfigBase(type="x", faults="loss=5%").faults == "loss=5%"
    with pytest.raises(ValueError, match="fault 'loss=5': write a share"):
        SourceConfigBase(type="x", faults="loss=5")
    with pytest.raises(ValueError, match="the 'restart' fault works with emulators only"):
        SourceConfigBase(type="x", faults="restart=1s")


# --- time ---------------------------------------------------------------------------------------


def test_episodes_begin_end_and_repeat() -> None:
    once, often = Episode(S, 5 * S), Episode(S, 5 * S, 30 * S)
    assert [once.index(t * S) for t in (0, 4.999, 5, 5.999, 6, 100)] == [  # type: ignore[arg-type]
        None,
        None,
        0,
        0,
        None,
        None,
    ]
    assert [often.index(t * S) for t in (4, 5, 6, 34, 35, 36, 65)] == [
        None,
        0,
        None,
        None,
        1,
        None,
        2,
    ]
    assert (once.end_ns(5 * S), often.end_ns(35 * S + 1), often.end_ns(6 * S)) == (
        6 * S,
        36 * S,
        None,
    )


def test_the_clock_drifts_and_steps() -> None:
    faults = Faults.parse("drift=50ppm,step=100ms@30s,step=-20ms@40s")
    assert faults.clock_error_ns(10 * S) == 500_000
    assert faults.clock_error_ns(30 * S) == 1_500_000 + 100 * MS
    assert faults.clock_error_ns(40 * S) == 2_000_000 + 80 * MS


def test_restarts_and_silence_are_different_troubles() -> None:
    faults = Faults.parse("restart=1s@1s,halfopen=1s@3s")
    assert [(faults.down(t * S), faults.silent(t * S)) for t in range(5)] == [
        (False, False),
        (True, False),
        (False, False),
        (False, True),
        (False, False),
    ]


# --- messages -----------------------------------------------------------------------------------


def fates(
    text: str, count: int = 20_000, elapsed_ns: int = 0
) -> tuple[list[tuple[int, ...]], Counter[str]]:
    delivery = Delivery(Faults.parse(text))
    return [delivery.delays_ns(elapsed_ns) for _ in range(count)], delivery.counters


def test_without_faults_every_message_passes_at_once() -> None:
    delays, counters = fates("", 100)
    assert set(delays) == {(0,)}
    assert +counters == Counter(offered=100)


def test_chances_are_as_told_and_add_up() -> None:
    delays, counters = fates("loss=5%,duplicate=3%,reorder=2%,seed=1")
    copies = Counter(len(d) for d in delays)
    assert counters["offered"] == len(delays) == 20_000
    assert copies == {
        0: counters["lost"],
        2: counters["duplicated"],
        1: 20_000 - counters["lost"] - copies[2],
    }
    assert sum(d[0] == REORDER_NS for d in delays if d) == counters["reordered"]
    # Within five standard deviations of a binomial share.
    for name, share in (("lost", 0.05), ("duplicated", 0.0285), ("reordered", 0.019)):
        assert counters[name] == pytest.approx(20_000 * share, abs=5 * (20_000 * share) ** 0.5), (
            name
        )


def test_delay_is_normal_and_jitter_exponential() -> None:
    delays_ms = np.array([d[0] for d in fates("delay=20ms±5,seed=2")[0]]) / MS
    assert (delays_ms.mean(), delays_ms.std()) == (
        pytest.approx(20.0, abs=0.3),
        pytest.approx(5.0, abs=0.3),
    )
    jitter_ms = np.array([d[0] for d in fates("delay=1ms,jitter=2ms,seed=2")[0]]) / MS
    assert jitter_ms.min() >= 1.0
    assert np.quantile(jitter_ms, [0.5, 0.99]) == pytest.approx(
        1.0 + 2.0 * np.log([2.0, 100.0]), rel=0.1
    )


def test_a_negative_delay_is_none() -> None:
    assert min(d[0] for d in fates("delay=1ms±5,seed=3", 1000)[0]) == 0


def test_a_burst_holds_back_until_its_end() -> None:
    delivery = Delivery(Faults.parse("burst=100ms@1s/2s"))
    assert [delivery.delays_ns(t * MS) for t in (999, 1000, 1060, 1100, 3050)] == [
        (0,),
        (100 * MS,),
        (40 * MS,),
        (0,),
        (50 * MS,),
    ]
    assert delivery.counters["held"] == 3


def test_what_a_burst_held_back_comes_in_order() -> None:
    delivery = Delivery(Faults.parse("burst=100ms@0s,jitter=5ms,delay=10ms±3"))
    arrivals = [t * MS + delivery.delays_ns(t * MS)[0] for t in range(100)]
    assert set(arrivals) == {110 * MS}


def test_a_half_open_peer_says_nothing_not_even_garbage() -> None:
    delivery = Delivery(Faults.parse("halfopen=1s@0s,garbage=100%"))
    assert delivery.delays_ns(0) == ()
    assert delivery.garbage(0, b"message") is None
    assert delivery.garbage(S, b"message") is not None
    assert +delivery.counters == Counter(offered=1, silenced=1, garbage=1)


def test_garbage_is_cut_flipped_or_random() -> None:
    message = bytes(range(100))
    delivery = Delivery(Faults.parse("garbage=50%,seed=5"))
    broken = [found for _ in range(2000) if (found := delivery.garbage(0, message)) is not None]
    assert len(broken) == delivery.counters["garbage"] == pytest.approx(1000, abs=120)
    cut = [b for b in broken if len(b) < 100 and message.startswith(b)]
    flipped = [
        b
        for b in broken
        if len(b) == 100 and sum(x != y for x, y in zip(b, message, strict=True)) == 1
    ]
    assert len(cut) > 250
    assert len(flipped) > 250
    assert len(broken) - len(cut) - len(flipped) > 250
    assert delivery.garbage(0, b"") is None or delivery.counters["garbage"] > len(broken), (
        "an empty one is survived"
    )


def test_a_seed_repeats_the_day() -> None:
    text = "loss=20%,duplicate=20%,jitter=1ms,seed="
    assert fates(text + "4", 200) == fates(text + "4", 200)
    assert fates(text + "4", 200) != fates(text + "5", 200)


# --- subjects -----------------------------------------------------------------------------------

SUBJECTS = ("a", "b", "c")
P_M = np.arange(9.0).reshape(3, 3)
Q_XYZW = np.array([q_from_euler_zyx(0.3 * i, 0.1, -0.2) for i in range(3)])


def troubled(
    text: str, *elapsed_ns: int
) -> tuple[list[tuple[FloatArray, FloatArray, BoolArray]], Counter[str]]:
    faults = SubjectFaults(Faults.parse(text))
    before = P_M.copy(), Q_XYZW.copy()
    tracked = np.ones(3, dtype=np.bool_)
    seen = [faults.bodies(t, SUBJECTS, P_M, Q_XYZW, tracked) for t in elapsed_ns]
    assert np.array_equal(before[0], P_M)
    assert np.array_equal(before[1], Q_XYZW)
    assert tracked.all(), "the truth is left alone"
    return seen, +faults.counters


def test_occlusion_comes_and_goes() -> None:
    seen, counters = troubled("occlude=b:1s@1s", 0, S, 2 * S)
    assert [tracked.tolist() for _, _, tracked in seen] == [
        [True] * 3,
        [True, False, True],
        [True] * 3,
    ]
    assert counters == Counter(occluded=1)


def test_a_flip_is_a_half_turn_about_the_bodys_own_z() -> None:
    ((p_m, q_xyzw, tracked),), counters = troubled("flip=b:1s@0s", 0)
    for axis, sign in ((0, -1.0), (1, -1.0), (2, 1.0)):
        unit = np.eye(3)[axis]
        assert q_rotate(q_xyzw[1], unit) == pytest.approx(sign * q_rotate(Q_XYZW[1], unit))
    assert np.array_equal(q_xyzw[[0, 2]], Q_XYZW[[0, 2]])
    assert np.array_equal(p_m, P_M)
    assert tracked.all()
    assert counters == Counter(flipped=1)


def test_a_swap_exchanges_two_labels() -> None:
    ((p_m, q_xyzw, _),), counters = troubled("swap=a+c:1s@0s", 0)
    assert np.array_equal(p_m, P_M[[2, 1, 0]])
    assert np.array_equal(q_xyzw, Q_XYZW[[2, 1, 0]])
    assert counters == Counter(swapped=1)


def test_subjects_that_are_not_there_are_left_out() -> None:
    ((p_m, _, tracked),), counters = troubled("swap=a+z:1s@0s,occlude=y:1s@0s", 0)
    assert np.array_equal(p_m, P_M)
    assert tracked.all()
    assert counters == Counter()


def test_skeletons_and_markers_are_occluded_with_their_subject() -> None:
    model = SkeletonModel("Actor", ("hip", "head"), (-1, 0), np.zeros((2, 3)))
    frame = SkeletonFrame(
        model, np.ones((2, 3)), np.tile([0.0, 0.0, 0.0, 1.0], (2, 1)), np.ones(2, dtype=np.bool_)
    )
    markers = Markers(("Actor/1", "a/1", ""), np.ones((3, 3)), np.array([True, True, True]))
    faults = SubjectFaults(Faults.parse("occlude=Actor:1s@0s"))
    assert not faults.skeleton(0, frame).tracked.any()
    assert faults.skeleton(S, frame) is frame
    hidden = faults.markers(0, markers)
    assert hidden is not None
    assert hidden.tracked.tolist() == [False, True, True]
    assert faults.markers(S, markers) is markers
    assert faults.markers(0, None) is None
