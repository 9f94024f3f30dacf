"""What runs: the coordinator that owns the clock and the attempts, and the sink of one process."""
