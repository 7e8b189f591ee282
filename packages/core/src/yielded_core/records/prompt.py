"""The prompt: messages to and from a model, as plain JSON data with a closed set of part types.

A prompt is one JSON field of a record: dictionaries and lists, bounded by REC-3. Roles and part
types that are not listed here are refused; additional keys of a message or a part are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, with_config
from pydantic_core import core_schema

# pydantic reads typed dictionaries of the standard library only from Python 3.12 on
from typing_extensions import TypedDict

from yielded_core.records.bounded_json import JsonValue
from yielded_core.records.fields import JsonField, JsonMember

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler

_OPEN: Final = ConfigDict(extra="allow", strict=True)
_Json: TypeAlias = Annotated[JsonValue, JsonMember()]


@with_config(_OPEN)
class TextPart(TypedDict):
    """Text."""

    type: Literal["text"]
    text: str


@with_config(_OPEN)
class ReasoningPart(TypedDict):
    """What a model thought aloud."""

    type: Literal["reasoning"]
    text: str


@with_config(_OPEN)
class FileDataPart(TypedDict):
    """A file by its content, as text in an encoding that the engine chooses."""

    type: Literal["file"]
    mediaType: str
    data: str


@with_config(_OPEN)
class FileUrlPart(TypedDict):
    """A file by its address."""

    type: Literal["file"]
    mediaType: str
    url: str


@with_config(_OPEN)
class ToolCallPart(TypedDict):
    """A call of a tool: the application's own, or one that the provider executed."""

    type: Literal["tool-call"]
    id: str
    name: str
    params: _Json
    providerExecuted: bool


@with_config(_OPEN)
class ToolResultPart(TypedDict):
    """The result of a tool call."""

    type: Literal["tool-result"]
    id: str
    name: str
    result: _Json
    isFailure: bool


class _ByType:
    """Tell parts apart by `type`, which several shapes may share."""

    def __init__(self, **shapes: tuple[type, ...]) -> None:
        self.shapes = {name.replace("_", "-"): each for name, each in shapes.items()}

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        choices: dict[str, core_schema.CoreSchema] = {}
        for name, shapes in self.shapes.items():
            first, *others = (handler.generate_schema(shape) for shape in shapes)
            choices[name] = core_schema.union_schema([first, *others]) if others else first
        return core_schema.tagged_union_schema(choices, discriminator="type")


UserPart: TypeAlias = Annotated[
    TextPart | FileDataPart | FileUrlPart,
    _ByType(text=(TextPart,), file=(FileDataPart, FileUrlPart)),
]
AssistantPart: TypeAlias = Annotated[
    TextPart | ReasoningPart | FileDataPart | FileUrlPart | ToolCallPart | ToolResultPart,
    _ByType(
        text=(TextPart,),
        reasoning=(ReasoningPart,),
        file=(FileDataPart, FileUrlPart),
        tool_call=(ToolCallPart,),
        tool_result=(ToolResultPart,),
    ),
]


@with_config(_OPEN)
class SystemMessage(TypedDict):
    """Instructions."""

    role: Literal["system"]
    content: str


@with_config(_OPEN)
class UserMessage(TypedDict):
    """What a person or another agent says."""

    role: Literal["user"]
    content: str | list[UserPart]


@with_config(_OPEN)
class AssistantMessage(TypedDict):
    """What a model answered; results in it are of tools that the provider executed."""

    role: Literal["assistant"]
    content: list[AssistantPart]


@with_config(_OPEN)
class ToolMessage(TypedDict):
    """The results of tool calls."""

    role: Literal["tool"]
    content: list[ToolResultPart]


Message: TypeAlias = Annotated[
    SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")
]


@with_config(_OPEN)
class Prompt(TypedDict):
    """Messages in order."""

    content: list[Message]


class _PromptSchema(JsonField):
    """A prompt, bounded as one JSON field."""

    def _shape(self, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return handler.generate_schema(Prompt)


PromptField: TypeAlias = Annotated[Prompt, _PromptSchema()]


def tool_calls(prompt: Prompt) -> list[ToolCallPart]:
    """Return the application's tool calls of a prompt in order; the provider's own left out."""
    return [
        part
        for message in prompt["content"]
        if message["role"] == "assistant"
        for part in message["content"]
        if part["type"] == "tool-call" and not part["providerExecuted"]
    ]
