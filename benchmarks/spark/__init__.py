"""Figures on Spark: calve's stream beside Spark's own ways into an Iceberg table, on the same data.

    data ─▶ feed (a folder that a stream reads) ─▶ ours (the door) | peers (Iceberg's Spark runtime)
                                                        └─▶ meter (micro-batches, CPU, memory) ─▶ figures

Every benchmark starts a JVM of its own and ends it: one at a time, none warmed up by another.
"""
