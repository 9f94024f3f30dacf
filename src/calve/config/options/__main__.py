"""Print docs/options.md: `python -m calve.config.options > docs/options.md`."""

import sys

from calve.config.options.page import options_page

sys.stdout.write(options_page())
