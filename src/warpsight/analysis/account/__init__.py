"""The account of time: how every nanosecond of every device was spent, and why it was idle."""

from __future__ import annotations

from warpsight.analysis.account.account import Account as Account
from warpsight.analysis.account.account import AccountSummary as AccountSummary
from warpsight.analysis.account.account import Entry as Entry
from warpsight.analysis.account.account import account as account

__all__ = ["Account", "AccountSummary", "Entry", "account"]
