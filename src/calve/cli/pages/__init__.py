"""Pages of the documentation that are made from the program itself; tests keep them up to date.

errors    docs/errors.md: `python -m calve.cli.pages errors > docs/errors.md`
commands  docs/cli.md: `python -m calve.cli.pages cli > docs/cli.md`
"""
