"""Benchmarks: what calve costs, beside a peer that does the same work. `python -m benchmarks`; see README.md."""
