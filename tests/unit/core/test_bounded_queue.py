"""The queue between threads: its limit, what it drops, and its end."""

from __future__ import annotations

import threading

from vil_bridge.runtime.bounded_queue import BoundedQueue


def test_a_full_queue_drops_its_oldest_and_reports_it() -> None:
    dropped = list[int]()
    queue: BoundedQueue[int] = BoundedQueue(3, on_drop=dropped.append)
    for number in range(5):
        queue.enqueue(number)
    assert (dropped, len(queue), queue.peek()) == ([0, 1], 3, 2)
    assert (queue.pop(), queue.drain(), queue.pop(), queue.peek()) == (2, [3, 4], None, None)


def test_one_entry_beyond_the_limit_stays() -> None:
    dropped = list[bytes]()
    queue: BoundedQueue[bytes] = BoundedQueue(4, len, dropped.append)
    for entry in (b"ab", b"cd", b"large one"):
        queue.enqueue(entry)
    assert (dropped, queue.drain()) == ([b"ab", b"cd"], [b"large one"])


def test_with_keep_oldest_a_full_queue_refuses_the_new_one() -> None:
    refused = list[bytes]()
    queue: BoundedQueue[bytes] = BoundedQueue(4, len, refused.append, keep_oldest=True)
    for entry in (b"abc", b"de", b"f", b"ghijk"):
        queue.enqueue(entry)
    assert (refused, queue.drain()) == ([b"de", b"ghijk"], [b"abc", b"f"])


def test_a_waiting_reader_gets_all_entries_and_then_the_end() -> None:
    refused, found = list[int](), list[int | None]()
    queue: BoundedQueue[int] = BoundedQueue(10, on_drop=refused.append)

    def read() -> None:
        while (entry := queue.pop_wait()) is not None:
            found.append(entry)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 6):
        queue.enqueue(number)
    queue.close()
    reader.join(60.0)
    queue.enqueue(6)
    assert (found, refused, reader.is_alive()) == ([1, 2, 3, 4, 5], [6], False)


def test_an_entry_that_is_dropped_may_enter_the_queue_again() -> None:
    queue: BoundedQueue[int] = BoundedQueue(
        1, on_drop=lambda number: queue.enqueue(7) if number == 0 else None
    )
    queue.enqueue(0)
    queue.enqueue(1)
    assert queue.drain() == [7]
