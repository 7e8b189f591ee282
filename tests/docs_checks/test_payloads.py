"""The page about payloads lists exactly the families that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from yielded_core.records.payloads import PAYLOADS

PAGE: Final = Path(__file__).parents[2] / "docs" / "contract" / "payloads.md"


def test_every_family_is_listed_once() -> None:
    listed = re.findall(r"^\| ([A-Z]\w+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(PAYLOADS)
