"""Captures to give away: pseudonyms instead of names and addresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from vil_adapters.optitrack.anonymised import NatNetAnonymizer
from vil_adapters.sessions.pseudonyms import Pseudonyms
from vil_adapters.vicon.udp_codec import renamed_objects
from vil_bridge.core.errors import RecordingError
from vil_bridge.protocols.pcap.pcap import PREAMBLE, encode_datagram, read_capture
from vil_bridge.runtime.datagrams import Datagram


@dataclass(slots=True)
class Anonymized:
    """Result of an anonymisation: datagrams written and left out, and all pseudonyms."""

    written: int = 0
    left_out: int = 0
    pseudonyms: Pseudonyms = field(default_factory=Pseudonyms)


def anonymize(source: Path, target: Path) -> Anonymized:
    """Write a new capture with the datagrams of another one that can be rewritten, in the same
    sizes and times.

    Raises:
        RecordingError: the source cannot be read or holds nothing to write, or the target cannot be
            created.
    """
    result = Anonymized()
    natnet = NatNetAnonymizer(result.pseudonyms)
    # All first: names of subjects stand in names of markers sent before.
    if not sum(datagram is not None for datagram in _rewritten(source, natnet, result.pseudonyms)):
        raise RecordingError(
            f"{source}: no datagram is NatNet or Tracker's UDP objects. Capture whole "
            "packets on the mocap's interface"
        )
    try:
        with target.open("xb") as file:
            file.write(PREAMBLE)
            for datagram in _rewritten(source, natnet, result.pseudonyms):
                if datagram is None:
                    result.left_out += 1
                    continue
                file.write(encode_datagram(datagram))
                result.written += 1
    except OSError as exc:
        raise RecordingError(f"{target}: cannot be written: {exc.strerror or exc}") from exc
    return result


def _rewritten(
    source: Path, natnet: NatNetAnonymizer, names: Pseudonyms
) -> Iterator[Datagram | None]:
    for datagram in read_capture(source):
        payload = natnet.rewrite(datagram.payload)
        if payload is None:
            payload = renamed_objects(datagram.payload, names.name)
        if payload is None:
            yield None
            continue
        sender = names.address(datagram.sender)
        receiver = names.address(datagram.receiver)
        yield replace(datagram, sender=sender, receiver=receiver, payload=payload)
