"""The envelopes of the sources: one module a format."""
