"""Columns as people have them: a column list, or the CREATE TABLE of CockroachDB or PostgreSQL.

grammar.py  texts ─▶ trees, by lark; what cannot be read, with its line, column and a caret
names.py    the types of databases and what they are in Iceberg: one list, also for docs/types.md
types.py    the tree of a type ─▶ Type
column.py   the tree of a column ─▶ its name, its type, what is said of it
create.py   statements ─▶ a table and its key
page.py     docs/types.md

The driver reads such texts; executors do not, so they need no lark.
"""
