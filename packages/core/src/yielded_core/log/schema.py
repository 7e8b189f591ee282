"""The published JSON Schema of a transfer page, generated from the models (ARC-1, ARC-2).

`python -m yielded_core.log.schema` writes it beside the schema of a record. What a page says beyond
its records is closed: a reader refuses what it does not know there. It cannot say the rules across
fields and pages, the bounds in bytes, nor the digests.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, cast

from pydantic.json_schema import models_json_schema

from yielded_core.log.fact_schema import FACTS
from yielded_core.log.page_schema import PageHeader
from yielded_core.records.bounds import TRANSFER_FORMAT
from yielded_core.records.schema import SCHEMA_FILE, WireSchema, record_schema

if TYPE_CHECKING:
    from pathlib import Path

PAGE_SCHEMA_FILE: Final[Path] = SCHEMA_FILE.with_name("page.schema.json")
"""The published schema; it is part of the distribution."""

_ID: Final = "urn:" + TRANSFER_FORMAT.replace("/", ":")
_DEFINITION: Final = "#/$defs/{model}"


def page_schema() -> dict[str, object]:
    """Generate the JSON Schema of a page: its records, and the facts of each section."""
    _, made = models_json_schema(
        [(PageHeader, "validation"), *((fact, "validation") for fact in FACTS.values())],
        ref_template=_DEFINITION,
        schema_generator=WireSchema,
    )
    definitions = cast("dict[str, dict[str, object]]", made["$defs"])
    for definition in definitions.values():
        for field in cast("dict[str, dict[str, object]]", definition["properties"]).values():
            field.pop("default", None)  # it says nothing about the wire
    page = definitions.pop(PageHeader.__name__)
    record = record_schema()
    definitions |= cast("dict[str, dict[str, object]]", record.pop("$defs"))
    for name in ("$schema", "$id"):
        record.pop(name)
    definitions["Record"] = record
    batch = cast("dict[str, dict[str, object]]", definitions["BatchPart"]["properties"])
    batch["records"]["items"] = {"$ref": _DEFINITION.format(model="Record")}
    page["allOf"] = [
        *(
            _section(name, {"$ref": _DEFINITION.format(model=fact.__name__)})
            for name, fact in FACTS.items()
        ),
        {
            "if": {"properties": {"section": {"const": "deliveries"}}},
            "then": {"properties": {"facts": {"maxItems": 0}}},
        },
        {
            "if": {"properties": {"section": {"const": "batches"}}},
            "then": {"required": ["batch"], "not": {"required": ["facts"]}},
            "else": {"required": ["facts"], "not": {"required": ["batch"]}},
        },
    ]
    return {
        "$schema": WireSchema.schema_dialect,
        "$id": _ID,
        **page,
        "$defs": dict(sorted(definitions.items())),
    }


def page_schema_text() -> str:
    """Generate the text of the published file."""
    return json.dumps(page_schema(), indent=2, ensure_ascii=False) + "\n"


def _section(name: str, item: object) -> dict[str, object]:
    """Say what the facts of a section are."""
    return {
        "if": {"properties": {"section": {"const": name}}},
        "then": {"properties": {"facts": {"items": item}}},
    }


if __name__ == "__main__":
    PAGE_SCHEMA_FILE.write_text(page_schema_text(), encoding="utf-8")
