"""``vil-bridge discover``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vil_bridge.cli.options import quiet_logs
from vil_bridge.runtime.exit_codes import Exit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vil_bridge.setup.discovery import Search

_PROBE_S = 1.0


def discover(
    hosts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[HOST[:PORT]...]",
            help="Computers to ask; none = search the network.",
            show_default=False,
        ),
    ] = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.2, max=60, help="How long to listen, seconds.")
    ] = 3.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of a configuration.")
    ] = False,
) -> None:
    """Find mocap servers, their bodies and skeletons: 0 = found, 3 = no answer.

    It prints a configuration: `vil-bridge discover > lab.yaml`, then `vil-bridge check lab.yaml`;
    or paste its sections into your own. Without broadcast, name the computer:
    `vil-bridge discover 192.168.1.10`.
    """
    import asyncio
    import json
    import sys

    from vil_bridge.setup import discovery

    quiet_logs()
    result = asyncio.run(discovery.search(hosts or (), timeout_s))
    if as_json:
        typer.echo(json.dumps(discovery.as_json(result), indent=2))
    elif result.found:
        typer.echo(discovery.as_yaml(result), nl=False)
    if not result.found:
        print(_no_answer_text(result, hosts or (), timeout_s), file=sys.stderr)
        raise typer.Exit(Exit.CHECK_FAILED)


def _no_answer_text(result: Search, hosts: Sequence[str], timeout_s: float) -> str:
    """Return a text of what was tried, what came back, and the next step."""
    from vil_bridge.setup.doctor.network import interfaces

    own = ", ".join(f"{i.address} ({i.name})" for i in interfaces()) or "none"
    lines = [f"no mocap server answered within {timeout_s:g} s"]
    where = ", ".join(hosts) or "broadcast, multicast and this computer, on the default ports"
    if result.tried:
        lines.append(f"  tried: {', '.join(result.tried)}; asked: {where}")
    lines.append(f"  from:  {own}")
    lines += [f"  left out: {name}: {reason}" for name, reason in result.failed.items()]
    lines += [f"  {host}: {_route_text(host)}" for host in hosts if host not in result.failed]
    if hosts:
        lines.append(
            "  next:  is streaming switched on there, on that port? Does its firewall "
            "let this computer in?"
        )
    else:
        lines.append("  next:  switch streaming on in the mocap program, or name its computer:")
        lines.append(
            "         `vil-bridge discover 192.168.1.10`; `vil-bridge doctor` looks at "
            "this computer"
        )
    return "\n".join(lines)


def _route_text(target: str) -> str:
    """Return the route to a computer, and the result of TCP if a port was given."""
    import socket

    from vil_bridge.setup.doctor.network import route_to

    host, _, port = target.partition(":")
    route = route_to(host)
    if route.problem or not port:
        return (
            route.problem or f"route: {route.interface} ({route.local_ip}); it may use other ports"
        )
    try:
        with socket.create_connection((route.host_ip, int(port)), _PROBE_S):
            answer = (
                "something listens there, and it speaks none of these protocols, or streams nothing"
            )
    except ConnectionRefusedError:
        answer = "refused: that computer is up, but nothing listens there by TCP"
    except OSError:
        answer = "silent: switched off, behind a firewall, or another address"
    return f"{answer} (by {route.interface}, {route.local_ip})"
