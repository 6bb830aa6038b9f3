"""Transactions under killing: `python -m tests.soak.transactions`; the checker of histories."""
