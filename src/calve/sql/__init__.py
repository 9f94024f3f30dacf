"""SQL: a pipeline as a file of statements.

    text ──split──▶ statements ──grammar──▶ tree ──write──▶ text

    tree       what a statement says
    split      statements in a text
    grammar    how they are written, by lark; errors with their place
    read       a tree from what the grammar found
    write      a tree as text

Guarantee: nothing is spliced. A name or a value is taken from its token, and what `write` makes of a tree is
read as the same tree, whatever stands in names and values.

What the statements mean is not here.
"""
