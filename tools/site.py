"""What the documentation site has beside the files in docs/. mkdocs calls it: see `hooks` in mkdocs.yml.

    docs/decisions/*.md ──▶ their part of the navigation
    CHANGELOG.md        ──▶ changelog.md

A new decision is in the navigation because it is in the folder: two branches that each add one do not both
edit a list. The changelog stays where people and tools look for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
DECISIONS = "decisions"
CHANGELOG = "changelog.md"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the decisions where the navigation names their folder."""
    folder = Path(config.docs_dir) / DECISIONS
    config.nav = [_expanded(item, folder) for item in config.nav or []]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take the changelog in."""
    files.append(File.generated(config, CHANGELOG, abs_src_path=str(ROOT / "CHANGELOG.md")))
    return files


def _expanded(item: Any, folder: Path) -> Any:
    if not isinstance(item, dict):
        return item
    return {title: _pages(folder) if held == DECISIONS else held for title, held in item.items()}


def _pages(folder: Path) -> list[str]:
    """The index first, then the pages by their numbers."""
    numbered = sorted(page.name for page in folder.glob("[0-9]*.md"))
    return [f"{DECISIONS}/{name}" for name in ("README.md", *numbered)]
