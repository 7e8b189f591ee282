"""The base of every record schema, and the one way from a model to its wire value (REC-4).

Models are frozen and refuse unknown keywords when they are built in Python; when a stored text is
decoded unknown fields are kept, so that what this version does not know survives it.
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from operator import itemgetter
from typing import (
    TYPE_CHECKING,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    NewType,
    TypeAlias,
    cast,
    get_args,
    get_origin,
)

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from pydantic_core import core_schema

from yielded_core.records.fields import JsonField, Units, instant_text
from yielded_core.records.identifiers import utf16_length

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import GetCoreSchemaHandler

_Getter: TypeAlias = "Callable[[Mapping[str, object]], tuple[object, ...]]"
_SCALARS: Final[frozenset[object]] = frozenset({str, int, bool})
_JSON_TYPES: Final = frozenset({str, int, bool, float, list, dict, type(None)})


class WireModel(BaseModel):
    """A frozen schema with camelCase wire names; its errors never show the values they refuse."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        hide_input_in_errors=True,
        defer_build=True,
    )


class ByTag:
    """A union of models told apart by `_tag` on the wire, and by `tag` in Python.

    pydantic's own discriminator would take a member `tag` of a stored text for the tag.
    """

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        families = cast("tuple[type[BaseModel], ...]", get_args(source))
        choices = {
            get_args(family.model_fields["tag"].annotation)[0]: handler.generate_schema(family)
            for family in families
        }
        return core_schema.json_or_python_schema(
            json_schema=core_schema.tagged_union_schema(choices, discriminator="_tag"),
            python_schema=core_schema.tagged_union_schema(
                choices, discriminator=[["tag"], ["_tag"]]
            ),
        )


class _Field(NamedTuple):
    name: str
    wire_name: str
    required: bool
    json: bool
    """Whether the field holds JSON, which nothing but `check_json` looks into."""
    units: int | None
    """The bound of the field's text, or of its keys, in UTF-16 code units."""


@cache
def _fields(model: type[BaseModel]) -> tuple[_Field, ...]:
    return tuple(
        _Field(
            name,
            field.alias or name,
            field.is_required(),
            _holds_json(field.annotation, field.metadata),
            _units(field.annotation, field.metadata),
        )
        for name, field in model.model_fields.items()
    )


class _Plan(NamedTuple):
    """How the wire object of a model is made: all values at once, then those that need a look."""

    values: _Getter
    wire_names: tuple[str, ...]
    looked_at: tuple[_Field, ...]


@cache
def _plan(model: type[BaseModel]) -> _Plan:
    fields = _fields(model)
    names = [field.name for field in fields]
    looked_at = tuple(
        field
        for field in fields
        if field.json or not _is_scalar(model.model_fields[field.name].annotation)
    )
    get = itemgetter(*names, names[0])  # the first one twice: a getter of one name gives no tuple
    return _Plan(cast("_Getter", get), tuple(field.wire_name for field in fields), looked_at)


def _is_scalar(annotation: object) -> bool:
    """Say whether every value of a field is a JSON scalar, and never None."""
    if isinstance(annotation, NewType):
        return _is_scalar(annotation.__supertype__)
    return annotation in _SCALARS or get_origin(annotation) is Literal


def _holds_json(annotation: object, metadata: list[object]) -> bool:
    """Say whether a field, or what an optional one holds when it is there, is JSON."""
    if any(isinstance(mark, JsonField) for mark in metadata):
        return True
    return any(
        isinstance(mark, JsonField)
        for inner in cast("tuple[object, ...]", get_args(annotation))
        for mark in cast("tuple[object, ...]", getattr(inner, "__metadata__", ()))
    )


def _units(annotation: object, metadata: list[object]) -> int | None:
    for mark in metadata:
        if isinstance(mark, Units):
            return mark.limit
    for inner in cast("tuple[object, ...]", get_args(annotation)):
        marks = list(cast("tuple[object, ...]", getattr(inner, "__metadata__", ())))
        found = _units(inner, marks)
        if found is not None:
            return found
    return None


class Wire(NamedTuple):
    """The JSON object that a model stands for, and the JSON fields in it."""

    value: dict[str, object]
    json: list[tuple[str, object]]
    """Name and value of each JSON field, those that this version does not know included."""


def wire_of(model: BaseModel) -> Wire:
    """Return the JSON object that a model stands for; optional keys without a value are absent.

    JSON fields are passed on as they are, not copied: check and encode them before anything else
    runs. Everything else was validated when the model was built; decode the encoded text again to
    find a copy that was made around the validation. Raises InvalidJson for an instant that has no
    exact text.
    """
    json: list[tuple[str, object]] = []
    return Wire(_wire_object(model, "", json), json)


def _wire_object(model: BaseModel, path: str, json: list[tuple[str, object]]) -> dict[str, object]:
    get, wire_names, looked_at = _plan(type(model))
    wire = dict(zip(wire_names, get(model.__dict__), strict=False))
    for _, wire_name, required, holds_json, _ in looked_at:
        value = wire[wire_name]
        if value is None and not required:
            del wire[wire_name]
        elif holds_json:
            json.append((path + wire_name, value))
        elif type(value) is not str:
            wire[wire_name] = _wire_value(value, path + wire_name, json)
    extra = model.__pydantic_extra__
    if extra:
        json.extend((path + name, value) for name, value in extra.items())
        wire.update(extra)
    return wire


def field_beyond_units(model: BaseModel) -> str | None:
    """Name a field whose text is too long in UTF-16 code units (REC-0), or return None.

    The schemas count code points when they read JSON, so this finds what they let pass: text with
    characters beyond the Basic Multilingual Plane.
    """
    values = model.__dict__
    for name, wire_name, _, _, units in _fields(type(model)):
        value: object = values[name]
        kind = type(value)
        if kind is str or kind is dict:
            if units is not None and _beyond(cast("str | dict[str, object]", value), units):
                return wire_name
        elif kind not in _JSON_TYPES:
            for member in cast("tuple[object, ...]", value if kind is tuple else (value,)):
                found = field_beyond_units(member) if isinstance(member, BaseModel) else None
                if found is not None:
                    return f"{wire_name}.{found}"
    return None


def _beyond(value: str | dict[str, object], units: int) -> bool:
    if isinstance(value, str):
        return utf16_length(value) > units
    return any(utf16_length(key) > units for key in value)


def _wire_value(value: object, path: str, json: list[tuple[str, object]]) -> object:
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, BaseModel):
        return _wire_object(value, path + ".", json)
    if isinstance(value, tuple):
        members = cast("tuple[object, ...]", value)
        return [_wire_value(member, path, json) for member in members]
    if isinstance(value, dict):  # its keys decide, as those of JSON do, how it is encoded
        json.append((path, cast("object", value)))
    return cast("object", value)
