"""Benchmarks: what calve costs, beside a peer that does the same work. README.md says how to read them."""
