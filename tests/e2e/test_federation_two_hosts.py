"""Two rooms on two hosts: one world, whatever the network between them does."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.support.common import PATIENCE_S, wait_until
from tests.support.federation_hosts import OTHER, ROOMS, Host, Hosts
from tests.support.network_namespaces import ip, two_namespaces
from tests.support.programs import queued_s
from vil_adapters.lab.link import LinkEmulator, LinkSpec

pytestmark = pytest.mark.process


RECOVERY_S = 2.0


def one_world(hosts: Hosts, tolerance_m: float = 0.05) -> None:
    """Both bridges show both actors where they truly are, soon after they met over a jittery
    link at the latest.
    """

    def wrong() -> list[tuple[str, str, float]]:
        return [
            place
            for host in (hosts.flight, hosts.actor)
            for place in misplaced(hosts, host, tolerance_m)
        ]

    assert (
        recovery_s(hosts, lambda: wait_until(lambda: not wrong(), what=wrong, period_s=0.05))
        < RECOVERY_S
    )


def recovery_s(hosts: Hosts, wait: Callable[[], float]) -> float:
    """Return the seconds that a wait took, without those in which threads waited for a
    processor.
    """
    waited_s = queued_s(_pids(hosts))
    return wait() - (queued_s(_pids(hosts)) - waited_s)


def _pids(hosts: Hosts) -> list[int]:
    return [child.pid for host in (hosts.flight, hosts.actor) for child in host._children.values()]


def back(hosts: Hosts, host: Host) -> None:
    """Wait until a host tracks the other room's actor, which takes it no longer than is
    promised.
    """
    assert (
        recovery_s(hosts, lambda: host.await_state(host.foreign, "tracked", PATIENCE_S))
        < RECOVERY_S
    )


def misplaced(hosts: Hosts, host: Host, tolerance_m: float) -> list[tuple[str, str, float]]:
    """Actors that a bridge shows elsewhere: its room, their name, by how much."""
    status = host.status()
    errors_m = {
        name: float(np.linalg.norm(actor["p_world_m"] - hosts.truth(name, status["t_ns"])))
        for name, actor in status["actors"].items()
    }
    return [
        (host.room, name, error_m) for name, error_m in errors_m.items() if error_m >= tolerance_m
    ]


@contextmanager
def undisturbed(host: Host) -> Iterator[Callable[[], None]]:
    """The room's own actor is never lost during that time.

    Yields what waits for more of its own frames.
    """

    def lost() -> int:
        count: int = host.status()["actors"][host.own]["seen"].get("lost", 0)
        return count

    def goes_on() -> None:
        before = own_frames(host)
        wait_until(lambda: own_frames(host) > before + 20, what="the room's own frames")

    lost_before = lost()
    yield goes_on
    goes_on()
    assert lost() == lost_before


def own_frames(host: Host) -> int:
    count: int = host.status()["sources"]["motive"]["frames"]
    return count


def cut_and_back(
    hosts: Hosts, host: Host, cut: Callable[[], None], restore: Callable[[], None], seconds: float
) -> None:
    """The other room ages as it should while nothing comes, and is back soon after the way is
    free.
    """
    with undisturbed(host) as goes_on:
        cut()
        begun_s, ends = time.monotonic(), ("lost",) if seconds > 2.0 else ("stale", "lost")
        seen = [host.state(host.foreign)]

        def aged() -> bool:
            state = host.state(host.foreign)
            seen.extend([state] if state != seen[-1] else [])
            return state in ends and time.monotonic() - begun_s >= seconds

        wait_until(aged, what=lambda: seen, period_s=0.02)
        goes_on()
        restore()
        assert set(seen) <= {"tracked", "coasting", "stale", "lost"}, seen
        assert "lost" not in seen[:-1], "what is lost does not come back by itself"
        back(hosts, host)


@pytest.mark.long
def test_one_world_over_a_bad_link_that_breaks(tmp_path: Path) -> None:
    """Loss, delay, jitter and a narrow line; cuts of 1 s and 10 s; a restart of each side."""
    with Hosts(tmp_path) as hosts, bad_links(hosts.flight, hosts.actor) as links:
        flight, actor = hosts.flight, hosts.actor
        for host, link in ((flight, links[actor.room]), (actor, links[flight.room])):
            host.configure(f"tcp://127.0.0.1:{host.port}", f"tcp://127.0.0.1:{link.port}")
        hosts.start()
        one_world(hosts)
        for host, seconds in ((flight, 1.0), (actor, 10.0)):
            link = links[OTHER[host.room]]
            cut_and_back(hosts, host, partial(link.cut, math.inf), link.restore, seconds)
        one_world(hosts)
        for host, other in ((flight, actor), (actor, flight)):
            with undisturbed(other) as goes_on:
                host.kill("bridge")
                other.await_state(other.foreign, "lost", PATIENCE_S)
                goes_on()
                host.start()
                host.await_state(host.own, "tracked", PATIENCE_S)
                for listener in (other, host):
                    back(hosts, listener)
        one_world(hosts)
        counters = flight.status()["sources"]["actor-hall"]["report"]["counters"]
        assert counters.get("malformed", 0) == 0
        assert counters["resets"] == 1


@contextmanager
def bad_links(*hosts: Host) -> Iterator[dict[str, LinkEmulator]]:
    """A link in front of each host's publisher, run by a loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    faults = "loss=0.5%,delay=20ms±3,jitter=2ms,rate=4Mbit"
    links = {
        h.room: LinkEmulator(LinkSpec.parse(f"tcp:0=127.0.0.1:{h.port}:{faults}")) for h in hosts
    }
    try:
        for link in links.values():
            asyncio.run_coroutine_threadsafe(link.start(), loop).result(5.0)
        yield links
    finally:
        for link in links.values():
            asyncio.run_coroutine_threadsafe(link.stop(), loop).result(5.0)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


# --- two network namespaces -----------------------------------------------------------------------


@pytest.fixture
def namespaces() -> Iterator[dict[str, str]]:
    """Two namespaces by their rooms."""
    with two_namespaces() as names:
        yield dict(zip(ROOMS, names, strict=True))


@pytest.mark.long
def test_one_world_over_two_network_namespaces(tmp_path: Path, namespaces: dict[str, str]) -> None:
    """Each host with addresses of its own; the cable is pulled and put back."""
    with Hosts(tmp_path, namespaces) as hosts:
        for number, host in enumerate((hosts.flight, hosts.actor), 1):
            other = hosts.actor if host is hosts.flight else hosts.flight
            host.configure(
                f"tcp://10.213.7.{number}:{host.port}", f"tcp://10.213.7.{3 - number}:{other.port}"
            )
        hosts.start()
        one_world(hosts)
        cable = ("-n", namespaces["flight"], "link", "set", "veth0")
        cut_and_back(
            hosts, hosts.flight, partial(ip, *cable, "down"), partial(ip, *cable, "up"), 3.0
        )
        hosts.actor.await_state("drone", "tracked", PATIENCE_S)
        one_world(hosts)
