"""The page of rules and what proves them: `python -m yielded_testing.rules`.

It is run at the root of a project that holds the contract under `docs/contract`: it collects the
tests with pytest, without running them, and writes `docs/rules.md`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from yielded_testing.saboteurs import SABOTEURS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_DEFINITION: Final = re.compile(r"^- \*\*([A-Z]{3}-\d+) ([^*]+?)\.?\*\*", re.MULTILINE)
_ADAPTERS: Final = {
    "packages/storage-memory": "memory",
    "packages/storage-sqlite": "sqlite",
    "packages/storage-postgres": "postgres",
}
_ELSEWHERE: Final = "elsewhere"
_HEAD: Final = """\
# Rules and what proves them

Made by `uv run python -m yielded_testing.rules` from the contract, the markers of the tests and the
saboteurs; do not edit it. A conformance case runs over each adapter that is named with it. A
saboteur is an adapter with one deliberate mistake, which a case of its rule must find. What is
planned says what will bring it.
"""


class Rule(NamedTuple):
    """A rule of the contract."""

    id: str
    title: str


@dataclass(frozen=True, slots=True)
class Planned:
    """What is not there yet, by rule, with what will bring it."""

    tests: Mapping[str, str] = field(default_factory=dict[str, str])
    saboteurs: Mapping[str, str] = field(default_factory=dict[str, str])

    @staticmethod
    def read(path: Path) -> Planned:
        """Read the tables `tests` and `saboteurs` of a TOML file."""
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        return Planned(values.get("tests", {}), values.get("saboteurs", {}))


@dataclass(slots=True)
class Proof:
    """What proves one rule."""

    rule: Rule
    tests: dict[str, list[str]]
    """Group -> names of its tests, each once, whatever its parameters."""
    saboteurs: list[str]

    def count(self, group: str) -> int:
        """Return how many tests of a group there are."""
        return len(self.tests.get(group, ()))


def contract_rules(folder: Path) -> list[Rule]:
    """Return the rules that the pages of a contract define, in order."""
    return [
        Rule(*found)
        for page in sorted(folder.glob("*.md"))
        for found in _DEFINITION.findall(page.read_text(encoding="utf-8"))
    ]


def collected_tests(root: Path) -> dict[str, list[str]]:
    """Collect the tests of a project without running them; return their ids by rule.

    Raises RuntimeError with pytest's own words when they cannot be collected.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "rules.json"
        options = ["--collect-only", "-q", "-m", "", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, "--rules-report", str(report)],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            message = f"the tests cannot be collected:\n{done.stdout[-2_000:]}{done.stderr}"
            raise RuntimeError(message)
        found: dict[str, dict[str, str]] = json.loads(report.read_text(encoding="utf-8"))["rules"]
    return {rule: list(tests) for rule, tests in found.items()}


def proofs(rules: Iterable[Rule], tests: Mapping[str, Sequence[str]]) -> list[Proof]:
    """Bring together rules, tests by rule, and the saboteurs of this distribution."""
    found: list[Proof] = []
    for rule in rules:
        grouped: dict[str, list[str]] = defaultdict(list)
        for group, name in dict.fromkeys(map(_named, tests.get(rule.id, ()))):
            grouped[group].append(name)
        saboteurs = [f"`{each.name}`: {each.wrong}" for each in SABOTEURS if rule.id in each.rules]
        found.append(Proof(rule, dict(grouped), saboteurs))
    return found


def _named(test: str) -> tuple[str, str]:
    """Return the group of a test id, and its name: suite cases without path, others with it."""
    path, _, name = test.partition("[")[0].partition("::")
    for prefix, adapter in _ADAPTERS.items():
        if path == f"{prefix}/tests/test_suites.py":
            return adapter, name
        if path.startswith(f"{prefix}/"):
            return f"{adapter} alone", f"{path}::{name}"
    return _ELSEWHERE, f"{path}::{name}"


def faults(found: Iterable[Proof], planned: Planned) -> list[str]:
    """Say which rules lack a test or a saboteur, and which plans are no longer needed."""
    faults: list[str] = []
    for proof in found:
        rule = proof.rule.id
        for kind, there, plans in (
            ("test", bool(proof.tests), planned.tests),
            ("saboteur", bool(proof.saboteurs), planned.saboteurs),
        ):
            if not there and rule not in plans:
                faults.append(f"{rule} has no {kind}, and none is planned")
            if there and rule in plans:
                faults.append(f"{rule} has a {kind}, so it is planned no longer")
    return faults


def page(found: Sequence[Proof], planned: Planned) -> str:
    """Return the page."""
    adapters = [each for each in _ADAPTERS.values() if any(proof.count(each) for proof in found)]
    lines = [_HEAD, f"| rule | {' | '.join(adapters)} | other tests | saboteurs |"]
    lines.append("|" + " --- |" * (len(adapters) + 3))
    for proof in found:
        total = sum(map(proof.count, proof.tests))
        counts = [proof.count(each) for each in adapters]
        row = [*counts, total - sum(counts), len(proof.saboteurs)]
        label = f"[{proof.rule.id}](#{_anchor(proof.rule)}) {proof.rule.title}"
        lines.append(f"| {label} | {' | '.join(str(each or '') for each in row)} |")
    for proof in found:
        lines += ["", f"## {proof.rule.id} {proof.rule.title}", "", *_details(proof, planned)]
    return "\n".join(lines) + "\n"


def _anchor(rule: Rule) -> str:
    return re.sub(r"[^a-z0-9 -]", "", f"{rule.id} {rule.title}".lower()).replace(" ", "-")


def _details(proof: Proof, planned: Planned) -> list[str]:
    lines: list[str] = []
    shared: dict[str, list[str]] = defaultdict(list)
    for group in _ADAPTERS.values():
        for name in proof.tests.get(group, ()):
            shared[name].append(group)
    by_groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, groups in shared.items():
        by_groups[tuple(groups)].append(name)
    for groups, names in by_groups.items():
        lines.append(f"- cases over {', '.join(groups)}:")
        lines += [f"  - `{name.rpartition('::')[2]}`" for name in names]
    for group in (*(f"{each} alone" for each in _ADAPTERS.values()), _ELSEWHERE):
        if proof.count(group):
            lines.append(f"- {'other tests' if group == _ELSEWHERE else f'tests of {group}'}:")
            lines += [f"  - `{name}`" for name in proof.tests[group]]
    rule = proof.rule.id
    if not proof.tests:
        lines.append(f"- tests planned: {planned.tests.get(rule, '(missing)')}")
    if proof.saboteurs:
        lines += ["- saboteurs:", *(f"  - {each}" for each in proof.saboteurs)]
    else:
        lines.append(f"- saboteurs planned: {planned.saboteurs.get(rule, '(missing)')}")
    return lines


def main() -> None:
    """Write the page of the project in the current folder."""
    parser = argparse.ArgumentParser(description="Write docs/rules.md of this project.")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the project's folder")
    root: Path = parser.parse_args().root
    planned = Planned.read(root / "docs" / "rules-planned.toml")
    found = proofs(contract_rules(root / "docs" / "contract"), collected_tests(root))
    (root / "docs" / "rules.md").write_text(page(found, planned), encoding="utf-8")
    missing = faults(found, planned)
    sys.stdout.writelines(f"{fault}\n" for fault in missing)
    sys.exit(bool(missing))


if __name__ == "__main__":
    main()
