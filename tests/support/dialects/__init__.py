"""Dialects: how the sources write the same changes, for the conformance of envelopes."""
