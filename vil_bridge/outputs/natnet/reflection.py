"""Limits of what a datagram server sends to addresses that may be forged.

Who sends a datagram may write another's address into it, so that the answer goes there. Until an
address has answered something that was sent to it, it gets at most three times the bytes that came
in its name. An answer proves an address only where it holds something that had to be read, a
cookie: elsewhere a second forged datagram passes for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vil_bridge.runtime.datagrams import Address

_TIMES: Final = 3
_REMEMBERED: Final = 4096


@dataclass(slots=True)
class _Account:
    received_bytes: int = 0
    sent_bytes: int = 0
    asked: bool = False
    proven: bool = False


class ReplyBudget:
    """Accounts of the addresses that datagrams came from, the newest 4,096; one thread."""

    def __init__(self) -> None:
        self._accounts: dict[Address, _Account] = {}

    def received(self, address: Address, size: int, *, answers: bool) -> None:
        """Account a datagram.

        Args:
            address: its sender.
            size: bytes.
            answers: it is what a peer sends once it has read what :meth:`asked` accounts, and not
                before.
        """
        account = self._accounts.pop(address, None) or _Account()
        self._accounts[address] = account
        if len(self._accounts) > _REMEMBERED:
            del self._accounts[self._least_wanted()]
        account.received_bytes += size
        account.proven |= answers and account.asked

    def asked(self, address: Address) -> None:
        """Account that an address was sent what it has to answer."""
        if address in self._accounts:
            self._accounts[address].asked = True

    def take(self, address: Address, size: int) -> bool:
        """Return True, and account it, when a datagram may be sent there."""
        account = self._accounts.get(address)
        if account is None:
            return False
        if not account.proven and account.sent_bytes + size > _TIMES * account.received_bytes:
            return False
        account.sent_bytes += size
        return True

    def _least_wanted(self) -> Address:
        """Return the address unheard longest, out of those that have not answered where there
        are any.
        """
        unproven = (address for address, account in self._accounts.items() if not account.proven)
        return next(unproven, next(iter(self._accounts)))

    def forget(self, address: Address) -> None:
        """Forget an address: it has to answer again."""
        self._accounts.pop(address, None)
