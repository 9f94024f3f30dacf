"""Print docs/types.md: `python -m calve.config.ddl > docs/types.md`."""

import sys

from calve.config.ddl.page import types_page

sys.stdout.write(types_page())
