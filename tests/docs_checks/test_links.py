"""Every relative link of the documentation leads to a file, and its anchor to a heading."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from mdit_py_plugins.anchors import anchors_plugin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it.token import Token

ROOT: Final = Path(__file__).parents[2]
MARKDOWN: Final = MarkdownIt("gfm-like", {"linkify": False}).use(anchors_plugin, max_level=6)


def documents(root: Path) -> list[Path]:
    """Return the README files and everything under `docs/`."""
    patterns = ("README.md", "benchmarks/README.md", "packages/*/README.md", "docs/**/*.md")
    return sorted(path for pattern in patterns for path in root.glob(pattern))


def flat(tokens: list[Token]) -> Iterator[Token]:
    """Yield block tokens and the inline tokens inside them."""
    for token in tokens:
        yield token
        yield from token.children or ()


def links(document: Path) -> Iterator[str]:
    """Yield the targets of links and images."""
    for token in flat(MARKDOWN.parse(document.read_text(encoding="utf-8"))):
        target = token.attrGet("href") or token.attrGet("src")
        if isinstance(target, str):
            yield target


def anchors(document: Path) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    tokens = MARKDOWN.parse(document.read_text(encoding="utf-8"))
    return {str(token.attrGet("id")) for token in tokens if token.type == "heading_open"}


def broken_links(root: Path) -> list[str]:
    """Describe every relative link that leads nowhere, or out of the repository."""
    broken: list[str] = []
    for document in documents(root):
        for target in links(document):
            address = urlsplit(target)
            if address.scheme or address.netloc:
                continue
            path = (document.parent / unquote(address.path)).resolve() if address.path else document
            inside = path.is_relative_to(root.resolve())
            found = inside and path.exists()
            if found and address.fragment and path.suffix == ".md":
                found = unquote(address.fragment) in anchors(path)
            if not found:
                broken.append(f"{document.relative_to(root)}: {target}")
    return broken


def test_links_of_the_documentation_resolve() -> None:
    assert any(document.parent.name == "contract" for document in documents(ROOT))
    assert broken_links(ROOT) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text("# The `store`, opened\n\n# Twice\n\n# Twice\n")
    (tmp_path / "README.md").write_text(
        "[a](docs/guide.md#the-store-opened) [b](docs/guide.md#twice-1) [c](https://example.org/x)"
        "\n\n```\n[in code](nowhere.md)\n```\n"
        "[d](docs/missing.md) [e](docs/guide.md#closed) [f](../outside.md) ![g](picture.png)"
    )
    assert broken_links(tmp_path) == [
        "README.md: docs/missing.md",
        "README.md: docs/guide.md#closed",
        "README.md: ../outside.md",
        "README.md: picture.png",
    ]
