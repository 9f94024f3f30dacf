"""Print a page: `python -m calve.cli.pages errors > docs/errors.md`."""

import sys

from calve.cli.pages.commands import commands_page
from calve.cli.pages.errors import errors_page

_PAGES = {"cli": commands_page, "errors": errors_page}

sys.stdout.write(_PAGES[sys.argv[1]]())
