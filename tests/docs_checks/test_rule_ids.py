"""Every rule id that documentation, source or a test names is a rule of `docs/contract/`."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
DEFINITION: Final = re.compile(r"^- \*\*([A-Z]{3}-\d+) [^*]+\*\*", re.MULTILINE)
MENTION: Final = re.compile(r"\b(?!SHA|UTF)[A-Z]{3}-\d+\b")
"""Three capitals and a number; SHA-256 and UTF-16 are other people's names."""
COMING: Final = frozenset({"CRD", "CRT", "EFX", "FEN", "LSE", "SUB", "UNA"})
"""Families that code may refer to before their page is written; after that, the page decides."""


def contract_rules(root: Path) -> list[str]:
    """Return the ids that the contract defines, in order, repeats included."""
    pages = sorted(root.glob("docs/contract/*.md"))
    return [rule for page in pages for rule in DEFINITION.findall(page.read_text(encoding="utf-8"))]


def mentions(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (place, rule id) for documentation and source, comments and docstrings included."""
    patterns = (
        "README.md",
        "docs/**/*.md",
        "benchmarks/README.md",
        "benchmarks/src/**/*",
        "packages/*/README.md",
        "packages/*/src/**/*",
    )
    for path in sorted(path for pattern in patterns for path in root.glob(pattern)):
        if path.suffix in {".md", ".py", ".sql"}:
            lines = path.read_text(encoding="utf-8").splitlines()
            for number, line in enumerate(lines, start=1):
                for rule in MENTION.findall(line):
                    yield f"{path.relative_to(root)}:{number}", rule


def marked_rules(root: Path) -> Iterator[tuple[str, object]]:
    """Yield (place, argument) for every `rule(...)` marker written out in the code."""
    for pattern in ("packages/**/*.py", "tests/**/*.py", "benchmarks/**/*.py"):
        for path in sorted(root.glob(pattern)):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.rule"):
                    for argument in node.args:
                        if isinstance(argument, ast.Constant):
                            yield f"{path.relative_to(root)}:{node.lineno}", argument.value


def unknown_rules(root: Path) -> list[str]:
    """Describe every mention of a rule that the contract does not define."""
    known = set(contract_rules(root))
    coming = COMING - {rule.partition("-")[0] for rule in known}
    named = [*mentions(root), *marked_rules(root)]
    return [
        f"{place}: {rule}"
        for place, rule in named
        if rule not in known and str(rule).partition("-")[0] not in coming
    ]


@pytest.mark.parametrize("family", ["REC", "LOG", "ARC", "STO", "LAY", "LED", "RCV"])
def test_the_rules_of_a_family_are_numbered_without_gap(family: str) -> None:
    numbers = sorted(
        int(rule.removeprefix(f"{family}-"))
        for rule in contract_rules(ROOT)
        if rule.startswith(f"{family}-")
    )
    assert len(numbers) > 1
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_every_rule_is_defined_once() -> None:
    repeated = [rule for rule, count in Counter(contract_rules(ROOT)).items() if count > 1]
    assert repeated == []


def test_every_rule_that_is_named_exists() -> None:
    assert unknown_rules(ROOT) == []


def test_a_rule_that_does_not_exist_is_found(tmp_path: Path) -> None:
    contract = tmp_path / "docs" / "contract" / "log.md"
    contract.parent.mkdir(parents=True)
    contract.write_text(
        "- **LOG-1 first.** See SHA-256, UTF-8, CRT-3.\n- **LED-2 second.** See LOG-3, LED-3.\n"
    )
    test = tmp_path / "tests" / "test_it.py"
    test.parent.mkdir()
    test.write_text("import pytest\n@pytest.mark.rule('LOG-1', 'LOG2')\ndef test() -> None: ...\n")
    assert unknown_rules(tmp_path) == [
        "docs/contract/log.md:2: LOG-3",
        "docs/contract/log.md:2: LED-3",
        "tests/test_it.py:2: LOG2",
    ]
