"""``vil-bridge capture``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def capture(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Capture of `debug.packet_capture`, Wireshark or tcpdump.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="New file for the anonymised capture.", show_default=False
        ),
    ],
) -> None:
    """Write an anonymised copy of a capture for a bug report.

    `vil-bridge capture motive.pcap -o report.pcap`.

    Addresses and the names of bodies, skeletons, cameras, devices and takes become pseudonyms of
    the same size. Times, ports, poses and the names of bones and markers stay. Datagrams that
    cannot be read to their last byte are left out.
    """
    from vil_adapters.lab.anonymised import anonymize

    result = anonymize(source, out)
    names = result.pseudonyms.names
    hosts = result.pseudonyms.hosts
    typer.echo(
        f"{out}: {result.written} datagrams, {result.left_out} left out because they cannot be read"
    )
    typer.echo(
        f"changed: {len(names)} names, {len(hosts)} addresses. Keep this table for yourself:"
    )
    for old, new in (*hosts.items(), *names.items()):
        typer.echo(f"  {old!r} is {new!r}")
    typer.echo("unchanged: times, ports, poses, programs' versions, names of bones and markers")
