"""Stable pseudonyms of names and addresses, for captures that are given away."""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from typing import Final

from vil_bridge.runtime.datagrams import Address

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_SHORTEST_PART: Final = 3
_FIRST_HOST: Final = int(IPv4Address("10.0.0.1"))


class Pseudonyms:
    """Replacements: for each name one of the same number of bytes, for each address one of
    10.0.0.0/8.

    Attributes:
        names: pseudonyms by name. hosts: by address.
    """

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.hosts: dict[str, str] = {}
        self._used: set[str] = set()

    def name(self, text: str) -> str:
        """Return the pseudonym of a name; a name of very few bytes may share it."""
        if text and text not in self.names:
            size = len(text.encode())
            number = len(self.names)
            made = _spelled(number, size)
            while made in self._used and number < len(self.names) + len(_LETTERS) ** min(size, 3):
                number += 1
                made = _spelled(number, size)
            self._used.add(made)
            self.names[text] = made
        return self.names.get(text, "")

    def within(self, text: str) -> str:
        """Return a text in which the names known so far are replaced, in any case of letters.

        Names of one or two letters are replaced where no letter or digit stands next to them
        (``Al`` in ``Al_Hips``).
        """
        for name in sorted(self.names, key=len, reverse=True):
            pattern = re.escape(name)
            if len(name) < _SHORTEST_PART:
                pattern = rf"(?<![^\W_]){pattern}(?![^\W_])"
            text = re.sub(pattern, self.names[name], text, flags=re.IGNORECASE | re.ASCII)
        return text

    def address(self, address: Address) -> Address:
        """Return the pseudonym of an address.

        Loopback, multicast and general broadcast stay, and all ports.
        """
        host, port = address
        ip = IPv4Address(host)
        if ip.is_loopback or ip.is_multicast or host == "255.255.255.255":
            return address
        if host not in self.hosts:
            self.hosts[host] = str(IPv4Address(_FIRST_HOST + len(self.hosts)))
        return self.hosts[host], port


def _spelled(number: int, size: int) -> str:
    """Return ``number`` in letters behind zeros, in exactly ``size`` bytes."""
    digits = ""
    while number or not digits:
        number, rest = divmod(number, len(_LETTERS))
        digits = _LETTERS[rest] + digits
    return digits[-size:].rjust(size, "x")
