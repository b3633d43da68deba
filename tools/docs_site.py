"""Hooks of mkdocs: pages that stand outside of docs/ are in the site too, and links to files that are no pages lead to the repository.

So each page has one place, and its links work on disk, on a forge and in the site. With `--strict` a link that leads nowhere is an error.
"""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = {"README.md": "index.md", **{name: name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "reports/matrix.md")}}
"""Page in the repository -> its place in the site."""
LINK = re.compile(r"(?P<before>!?\[[^\]\n]*\])\((?P<target>[^()\s]+)\)")
FENCE = re.compile(r"(?ms)^```.*?^```|`[^`\n]+`")

log = logging.getLogger("mkdocs.hooks.docs_site")


def outside() -> dict[str, str]:
    """The pages that are not in docs/, with the published report of each seam."""
    reports = (path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("reports/seams/*.md")))
    return OUTSIDE | {name: name for name in reports}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put pages that nobody gave a place at the end, rather than lose them."""
    listed = str(config.nav)
    more = [path.name for path in sorted(Path(config.docs_dir).glob("*.md")) if f"'{path.name}'" not in listed]
    if more and config.nav is not None:
        config.nav.append({"More": more})
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add them."""
    listed = set(OUTSIDE.values())
    for source, place in outside().items():
        file = File.generated(config, place, content=(ROOT / source).read_text(encoding="utf-8"))
        file.inclusion = InclusionLevel.INCLUDED if place in listed else InclusionLevel.NOT_IN_NAV
        files.append(file)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead each relative link to where its target is in the site, or to the repository."""
    places = outside()
    source = next((name for name, place in places.items() if place == page.file.src_uri), f"docs/{page.file.src_uri}")

    def lead(match: re.Match[str]) -> str:
        parts = urlsplit(match["target"])
        if parts.scheme or not parts.path:
            return match[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(source), parts.path))
        place = places.get(there, there.removeprefix("docs/"))
        if files.get_file_from_path(place) is not None and (there in places or there.startswith("docs/")):
            target = posixpath.relpath(place, posixpath.dirname(page.file.src_uri) or ".")
        elif (ROOT / there).exists():
            target = f"{config.repo_url}/blob/main/{there}"
        else:
            log.warning("%s: %s leads nowhere", source, match["target"])
            return match[0]
        return f"{match['before']}({target}{f'#{parts.fragment}' if parts.fragment else ''})"

    return _outside_of_code(markdown, lambda text: LINK.sub(lead, text))


def _outside_of_code(markdown: str, change: Callable[[str], str]) -> str:
    pieces: list[str] = []
    at = 0
    for code in FENCE.finditer(markdown):
        pieces += [change(markdown[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*pieces, change(markdown[at:])])
