"""The way in. What the command line needs stands in the extra `cli`; without it, one line says so."""

from __future__ import annotations

import sys

_EXTRA = ("click", "rich", "typer")


def main() -> None:
    """Run the command that the arguments name."""
    try:
        from calve.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        sys.exit(f"calve: the command line needs {error.name}; install it with: pip install 'calve[cli]'")
    app()


if __name__ == "__main__":
    main()
