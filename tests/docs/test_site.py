"""The site builds in strict mode, has every page, and makes a browser ask nobody else for anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parents[2]
LOADED_LINKS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload"}
ELSEWHERE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
CSS_ELSEWHERE = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])\s*(?:https?:)?//[^)"']*""", re.IGNORECASE)


def mkdocs(folder: Path, site: Path) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    # A proxy that is not there: a build that fetches something fails.
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    env = {**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(call, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = mkdocs(ROOT, folder)
    assert built.returncode == 0, built.stderr
    return folder


class Loads(HTMLParser):
    """What a page makes a browser load: not what a person may follow."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        places = [said.get(name, "") for name in ("src", "srcset", "data", "poster", "xlink:href")]
        if tag == "link" and LOADED_LINKS & set(said.get("rel", "").split()):
            places.append(said.get("href", ""))
        if tag in ("use", "image", "feimage"):
            places.append(said.get("href", ""))
        self.found += [f"<{tag}> {place}" for place in places if ELSEWHERE.match(place)]
        self.found += [f"<{tag} style> {place}" for place in CSS_ELSEWHERE.findall(said.get("style", ""))]


def loaded_from_elsewhere(text: str) -> list[str]:
    """Of HTML or SVG."""
    parser = Loads()
    parser.feed(text)
    inline = "".join(re.findall(r"<style[^>]*>(.*?)</style>", text, re.DOTALL))
    return parser.found + CSS_ELSEWHERE.findall(inline)


def test_no_page_and_no_picture_loads_anything_from_elsewhere(site):
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".svg")]
    assert len([path for path in files if path.suffix == ".html"]) > 40
    found = {
        str(path.relative_to(site)): loads
        for path in files
        if (loads := loaded_from_elsewhere(path.read_text("utf-8")))
    }
    assert found == {}


def test_no_style_loads_anything_from_elsewhere(site):
    found = [
        (path.name, place)
        for path in site.rglob("*.css")
        for place in CSS_ELSEWHERE.findall(path.read_text("utf-8"))
    ]
    assert found == []


def test_no_page_has_what_the_theme_s_script_would_fetch_something_for(site):
    """The script knows three addresses elsewhere: for drawings by Mermaid, for a repository on GitHub, and
    for browsers that are older than anybody's."""
    for path in site.rglob("*.html"):
        text = path.read_text("utf-8")
        assert 'class="mermaid"' not in text, path
        assert "data-md-component=source" not in text.replace('"', ""), path


@pytest.mark.parametrize(
    "text, places",
    [
        ('<script src="https://cdn.example/x.js"></script>', 1),
        ('<img src="//cdn.example/x.png">', 1),
        ('<link rel="stylesheet" href="https://fonts.example/css">', 1),
        ('<link rel="canonical" href="https://calve.example/">', 0),
        ('<a href="https://iceberg.apache.org">Iceberg</a>', 0),
        ("<style>@font-face { src: url('https://fonts.example/f.woff2') }</style>", 1),
        ('<p style="background: url(//cdn.example/x.png)">', 1),
        ('<svg><image href="http://cdn.example/x.png"/></svg>', 1),
        ('<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0"/></svg>', 0),
    ],
)
def test_what_is_loaded_from_elsewhere_is_told_from_what_is_only_named(text, places):
    assert len(loaded_from_elsewhere(text)) == places


def test_every_page_is_in_the_site_and_every_decision_in_its_navigation(site):
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix("").as_posix()
        folder = name.removesuffix("README").removesuffix("index").strip("/")
        assert (site / folder / "index.html").is_file(), name
    start = (site / "decisions" / "index.html").read_text("utf-8")
    for decision in (ROOT / "docs" / "decisions").glob("[0-9]*.md"):
        assert f'href="{decision.stem}/" class="md-nav__link"' in start, decision.name
    assert "Unreleased" in (site / "changelog" / "index.html").read_text("utf-8")


def test_anchors_are_those_of_github(site):
    """Pages are read in both places, and links name the same headings."""
    text = (site / "guarantees" / "index.html").read_text("utf-8")
    assert 'id="p1-a-snapshot-is-the-source-as-of-its-frontier"' in text


@pytest.mark.parametrize(
    "page, said",
    [
        ("[nowhere](nowhere.md)\n", "nowhere.md"),
        ("[no heading](index.md#no-heading)\n", "no-heading"),
        (None, 'not included in the "nav"'),
    ],
)
def test_a_page_with_a_fault_fails_the_build(tmp_path, page, said):
    """A link that leads nowhere, a heading that is not there, a page that nobody can find."""
    copy = tmp_path / "copy"
    for name in ("docs", "tools"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("mkdocs.yml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, copy / name)
    if page is None:
        (copy / "docs" / "lost.md").write_text("# Lost\n", "utf-8")
    else:
        with (copy / "docs" / "types.md").open("a", encoding="utf-8") as file:
            file.write(page)
    built = mkdocs(copy, tmp_path / "site")
    assert built.returncode != 0
    assert said in built.stderr
