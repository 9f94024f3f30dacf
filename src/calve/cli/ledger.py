"""A small ledger: accounts and transfers between them. Money moves, and none is made or lost.

    Ledger(accounts) ──epoch──▶ Entries (account, owner, balance, op) ──▶ the table
                     └────────▶ the truth: every account's balance, and a sum that never changes

The first epoch opens all accounts. Every later one transfers money, opens some accounts with money of
others, and closes some after their money went elsewhere: updates, inserts and deletes, several of one
account in one epoch. From a seed: a run that starts again sends the same epochs again, as any source
must be able to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

OPENING_BALANCE = 1_000
_SEED = 1912
_TOUCHED_SHARE = 20
"""About one account in so many is touched by an epoch."""
_CLOSING_CHANCE = 0.6


@dataclass(slots=True)
class Entries:
    """Changes, column by column, in the order in which they happened."""

    account: list[int] = field(default_factory=list)
    owner: list[str] = field(default_factory=list)
    balance: list[int] = field(default_factory=list)
    op: list[str] = field(default_factory=list)

    def add(self, account: int, balance: int, op: str) -> None:
        self.account.append(account)
        self.owner.append(owner_of(account))
        self.balance.append(balance)
        self.op.append(op)


class Ledger:
    """The ledger after the epochs that were asked for so far."""

    def __init__(self, accounts: int) -> None:
        self.balances: dict[int, int] = {}
        self.total = accounts * OPENING_BALANCE
        self._accounts = accounts
        self._next_account = 1
        self._random = Random(_SEED)

    def next_epoch(self) -> Entries:
        """The changes of the next epoch; they are part of the ledger from then on."""
        entries = Entries()
        if not self.balances:
            for _ in range(self._accounts):
                self._open(entries, OPENING_BALANCE)
            return entries
        for _ in range(max(2, self._accounts // _TOUCHED_SHARE // 3)):
            self._transfer(entries)
            self._open_from_another(entries)
            if self._random.random() < _CLOSING_CHANCE:
                self._close_into_another(entries)
        return entries

    def _open(self, entries: Entries, balance: int) -> None:
        account, self._next_account = self._next_account, self._next_account + 1
        self._put(entries, account, balance, "insert")

    def _transfer(self, entries: Entries) -> None:
        payer, payee = self._two()
        amount = self._random.randint(0, self.balances[payer])
        self._put(entries, payer, self.balances[payer] - amount, "update")
        self._put(entries, payee, self.balances[payee] + amount, "update")

    def _open_from_another(self, entries: Entries) -> None:
        payer, _ = self._two()
        amount = self.balances[payer] // 2
        self._put(entries, payer, self.balances[payer] - amount, "update")
        self._open(entries, amount)

    def _close_into_another(self, entries: Entries) -> None:
        closed, payee = self._two()
        rest = self.balances.pop(closed)
        entries.add(closed, 0, "delete")
        self._put(entries, payee, self.balances[payee] + rest, "update")

    def _put(self, entries: Entries, account: int, balance: int, op: str) -> None:
        self.balances[account] = balance
        entries.add(account, balance, op)

    def _two(self) -> tuple[int, int]:
        """Two different open accounts. There are always two: none is closed but after another was opened."""
        while True:
            first, second = self._pick(), self._pick()
            if first != second:
                return first, second

    def _pick(self) -> int:
        while True:
            account = self._random.randrange(1, self._next_account)
            if account in self.balances:
                return account


def owner_of(account: int) -> str:
    return f"owner {account:06d}"
