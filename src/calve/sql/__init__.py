"""SQL: a pipeline as a file of statements.

    text ──split──▶ statements ──grammar──▶ tree ──write──▶ text

    tree       what a statement says
    split      statements in a text
    grammar    how they are written, by lark; errors with their place
    read       a tree from what the grammar found
    write      a tree as text
    mask       a text of statements, as it may be shown
    defined    what statements define, by name
    secrets    what a secret holds
    asked      the options of a statement, each taken once
    pointed    errors of statements, at the word that they are about
    connect, source, sink    what statements mean, in the words of the rooms that do the work
    draft      a pipeline from a few answers

Guarantee: nothing is spliced. A name or a value is taken from its token, and what `write` makes of a tree is
read as the same tree, whatever stands in names and values.
"""
