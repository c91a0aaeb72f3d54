"""The ring of inertial samples: intervals, broken stamps, and readers in other threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from vil_bridge.world.inertial.imu_buffer import ImuBuffer

MS = 1_000_000


def filled(count: int, capacity: int = 16, start_ns: int = 10**15) -> ImuBuffer:
    """Samples every 4 ms whose values are linear in time."""
    buffer = ImuBuffer(capacity)
    for i in range(count):
        assert buffer.append(
            start_ns + 4 * i * MS, np.array([i, 2.0 * i, -i]), np.array([0.0, i, 10.0])
        )
    return buffer


@pytest.mark.parametrize("count", [2, 15, 16, 17, 33, 100])
def test_ring_holds_the_newest(count: int) -> None:
    buffer = filled(count)
    kept = min(count, 16)
    newest_ns = 10**15 + 4 * (count - 1) * MS
    assert buffer.newest_t_ns == newest_ns
    assert buffer.oldest_t_ns is not None
    assert kept - 1 <= len(buffer) <= kept
    window = buffer.between(buffer.oldest_t_ns, newest_ns)
    assert window is not None
    np.testing.assert_array_equal(window.w_radps[:, 0], np.arange(count - len(buffer), count))


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e9])
def test_what_no_sensor_measures_is_refused(value: float) -> None:
    buffer = filled(4)
    later_ns = 10**15 + 100 * MS
    assert not buffer.append(later_ns, np.array([0.0, value, 0.0]), np.zeros(3))
    assert not buffer.append(later_ns, np.zeros(3), np.array([0.0, 0.0, value]))
    assert (len(buffer), buffer.rejected) == (4, 2)
    assert buffer.append(later_ns, np.zeros(3), np.zeros(3))


def test_interval_is_interpolated_at_its_ends() -> None:
    window = filled(10).between(10**15 + 5 * MS, 10**15 + 18 * MS)
    assert window is not None
    np.testing.assert_array_equal((window.t_ns - 10**15) / MS, [5, 8, 12, 16, 18])
    np.testing.assert_allclose(window.w_radps[:, 1], [2.5, 4, 6, 8, 9])
    np.testing.assert_allclose(window.f_mps2[:, 1], [1.25, 2, 3, 4, 4.5])


def test_interval_that_begins_and_ends_on_samples_repeats_none() -> None:
    window = filled(10).between(10**15 + 4 * MS, 10**15 + 12 * MS)
    assert window is not None
    np.testing.assert_array_equal((window.t_ns - 10**15) / MS, [4, 8, 12])


def test_newest_is_held_beyond_itself() -> None:
    buffer = filled(3)
    window = buffer.between(10**15 + 6 * MS, 10**15 + 50 * MS)
    assert window is not None
    np.testing.assert_array_equal((window.t_ns - 10**15) / MS, [6, 8, 50])
    np.testing.assert_allclose(window.w_radps[:, 0], [1.5, 2, 2])
    beyond = buffer.between(10**15 + 20 * MS, 10**15 + 30 * MS)
    assert beyond is not None
    np.testing.assert_allclose(beyond.w_radps[:, 0], [2, 2])


def test_history_that_does_not_reach_back() -> None:
    assert ImuBuffer().between(0, 1) is None
    assert filled(3).between(10**15 - 1, 10**15 + 1) is None
    with pytest.raises(ValueError, match="empty"):
        filled(3).between(5, 5)


def test_bad_stamps_are_dropped_and_counted() -> None:
    buffer = filled(5)
    zero = np.zeros(3)
    assert not buffer.append(10**15 + 16 * MS, zero, zero)
    assert not buffer.append(10**15 + 3 * MS, zero, zero)
    assert (buffer.duplicates, buffer.out_of_order, buffer.resets, len(buffer)) == (1, 1, 0, 5)


@pytest.mark.parametrize("jump_ns", [-2_000 * MS, 2_000 * MS])
def test_time_jump_begins_a_new_history(jump_ns: int) -> None:
    buffer = filled(5)
    assert buffer.append(10**15 + jump_ns, np.ones(3), np.ones(3))
    assert (len(buffer), buffer.resets, buffer.newest_t_ns) == (1, 1, 10**15 + jump_ns)
    assert buffer.oldest_t_ns == buffer.newest_t_ns


@pytest.mark.parametrize("direction", [-1, 1])
@pytest.mark.parametrize(("jump_ns", "resets"), [(1_000 * MS, 0), (1_000 * MS + 1, 1)])
def test_a_jump_is_more_than_a_second(direction: int, jump_ns: int, resets: int) -> None:
    buffer = filled(5)
    buffer.append(10**15 + 16 * MS + direction * jump_ns, np.ones(3), np.ones(3))
    assert buffer.resets == resets


def test_reader_threads_see_whole_samples() -> None:
    buffer = ImuBuffer(64)
    buffer.append(1, np.full(3, 1.0), np.full(3, 1.0))
    stop, broken = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            oldest, newest = buffer.oldest_t_ns, buffer.newest_t_ns
            assert oldest is not None and newest is not None
            window = buffer.between(oldest, newest + 1)
            if window is None:
                continue  # the oldest has been overwritten meanwhile
            if not np.array_equal(window.w_radps[:-1, 0], window.t_ns[:-1].astype(float)):
                broken.append(window)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for i in range(2, 5000):
        buffer.append(i, np.full(3, float(i)), np.full(3, float(i)))
    stop.set()
    for reader in readers:
        reader.join()
    assert not broken


def test_samples_since_an_instant_are_those_after_it() -> None:
    found = filled(10).since(10**15 + 28 * MS)
    assert found is not None
    np.testing.assert_array_equal(found.t_ns, 10**15 + 4 * MS * np.array([8, 9]))
    np.testing.assert_array_equal(found.w_radps, [(8.0, 16.0, -8.0), (9.0, 18.0, -9.0)])
    np.testing.assert_array_equal(found.f_mps2, [(0.0, 8.0, 10.0), (0.0, 9.0, 10.0)])
    assert filled(10).since(10**15 + 36 * MS) is None
