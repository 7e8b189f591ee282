"""The published JSON Schema of a record, generated from the models (REC-5, REC-6).

`python -m yielded_core.records.schema` writes it beside this module. It is open where a reader
keeps what it does not know, and it cannot say the rules across fields, nor the bounds that count
UTF-16 code units or canonical bytes: a record that it accepts may still be refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from pydantic.json_schema import GenerateJsonSchema

from yielded_core.records.bounds import RECORD_FORMAT
from yielded_core.records.envelope import Record

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaMode, JsonSchemaValue
    from pydantic_core import core_schema

SCHEMA_FILE: Final = Path(__file__).with_name("schemas") / "record.schema.json"
"""The published schema; it is part of the distribution."""

_ID: Final = "urn:" + RECORD_FORMAT.replace("/", ":")


class WireSchema(GenerateJsonSchema):
    """JSON Schema of what is on the wire: constants are required."""

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,  # noqa: FBT001 - the signature of the method it overrides
    ) -> bool:
        """Say whether a key is always there: a constant is."""
        inner = field["schema"]
        if inner["type"] == "default":
            return inner.get("default") is not None
        return super().field_is_required(field, total)

    def field_title_should_be_set(
        self,
        schema: core_schema.CoreSchema
        | core_schema.ModelField
        | core_schema.DataclassField
        | core_schema.TypedDictField
        | core_schema.ComputedField,
    ) -> bool:
        """Say that a field needs no title: its name is one."""
        del schema
        return False


class _Published(WireSchema):
    """The same, with everything open."""

    def generate(
        self, schema: core_schema.CoreSchema, mode: JsonSchemaMode = "validation"
    ) -> JsonSchemaValue:
        published = super().generate(schema, mode)
        _open(published)
        return {"$schema": self.schema_dialect, "$id": _ID, **published}


def record_schema() -> dict[str, object]:
    """Generate the JSON Schema of a record, every payload family under `$defs`."""
    return Record.model_json_schema(schema_generator=_Published)


def schema_text() -> str:
    """Generate the text of the published file."""
    return json.dumps(record_schema(), indent=2, ensure_ascii=False) + "\n"


def _open(schema: JsonSchemaValue) -> None:
    """Drop what would close objects, and what says nothing about the wire."""
    pending: list[object] = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            members = cast("dict[str, object]", node)
            if isinstance(members.get("additionalProperties"), bool):
                del members["additionalProperties"]
            members.pop("default", None)
            members.pop("discriminator", None)
            pending.extend(members.values())
        elif isinstance(node, list):
            pending.extend(cast("list[object]", node))


if __name__ == "__main__":
    SCHEMA_FILE.parent.mkdir(exist_ok=True)
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
