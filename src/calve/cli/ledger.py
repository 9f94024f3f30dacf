"""A small ledger: accounts and transfers between them. Money moves, and none is made or lost.

    Ledger(accounts, minutes) ── changes, each at its time ──▶ feed.py, the table
                              └─ before(frontier) ──▶ the truth: every account's balance, and a sum that
                                                      never changes

First all accounts open at once. Then, all through its minutes, money is transferred, accounts open with money
of others, and some close after their money went elsewhere: updates, inserts and deletes, several of one
account in a minute. All changes of a transaction have one time, so that no frontier lies inside it: a table
that shows half a transfer is wrong, and its sum tells.

From a seed: the same arguments give the same ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

MINUTE = 60_000_000
"""In microseconds, as all times of the ledger."""
OPENING_BALANCE = 1_000
_SEED = 1912
_TRANSACTIONS_SHARE = 20
"""A minute has a transaction for so many accounts."""
_CLOSING_CHANCE = 0.2
_OPENING_CHANCE = 0.3


@dataclass(frozen=True, slots=True)
class Change:
    """What became of an account, and when."""

    at: int
    account: int
    balance: int
    op: str


class Ledger:
    """All changes, in the order of their times, and what they amount to at any of them."""

    def __init__(self, accounts: int, minutes: int, start: int) -> None:
        self.total = accounts * OPENING_BALANCE
        self.changes: list[Change] = []
        self._random = Random(_SEED)
        self._balances: dict[int, int] = {}
        self._next_account = 1
        for _ in range(accounts):
            self._open(start, OPENING_BALANCE)
        transactions = minutes * max(4, accounts // _TRANSACTIONS_SHARE)
        times = self._random.sample(range(start + 1, start + minutes * MINUTE), transactions)
        for at in sorted(times):
            self._transact(at)

    def before(self, frontier: int) -> dict[int, int]:
        """The balances of open accounts after all changes before a time."""
        balances: dict[int, int] = {}
        for change in self.changes:
            if change.at >= frontier:
                break
            if change.op == "delete":
                del balances[change.account]
            else:
                balances[change.account] = change.balance
        return balances

    def _transact(self, at: int) -> None:
        one, other = self._two()
        chance = self._random.random()
        if chance < _CLOSING_CHANCE and len(self._balances) > 2:
            rest = self._balances.pop(one)
            self.changes.append(Change(at, one, 0, "delete"))
            self._put(at, other, self._balances[other] + rest, "update")
        elif chance < _CLOSING_CHANCE + _OPENING_CHANCE:
            half = self._balances[one] // 2
            self._put(at, one, self._balances[one] - half, "update")
            self._open(at, half)
        else:
            amount = self._random.randint(0, self._balances[one])
            self._put(at, one, self._balances[one] - amount, "update")
            self._put(at, other, self._balances[other] + amount, "update")

    def _open(self, at: int, balance: int) -> None:
        account, self._next_account = self._next_account, self._next_account + 1
        self._put(at, account, balance, "insert")

    def _put(self, at: int, account: int, balance: int, op: str) -> None:
        self._balances[account] = balance
        self.changes.append(Change(at, account, balance, op))

    def _two(self) -> tuple[int, int]:
        """Two different open accounts. There are always two."""
        while True:
            first, second = self._pick(), self._pick()
            if first != second:
                return first, second

    def _pick(self) -> int:
        while True:
            account = self._random.randrange(1, self._next_account)
            if account in self._balances:
                return account


def owner_of(account: int) -> str:
    return f"owner {account:06d}"
