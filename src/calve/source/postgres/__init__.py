"""PostgreSQL: rows of a live table, for who compares.

copy    in an executor: the rows of a snapshot
"""
