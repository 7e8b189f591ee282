"""The cases of a conformance suite as data, so that they can be run and reported without pytest."""

from __future__ import annotations

import inspect
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

SLOW: Final = "slow_case"
RULE: Final = "rule"
_PARAM: Final = type(pytest.param())


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a suite, with one set of parameters."""

    suite: str
    name: str
    """The name of the method, without parameters."""
    parameters: str
    """The parameters as they stand in the id of a test; empty without."""
    rules: tuple[str, ...]
    slow: bool
    """Whether it takes about a tenth of a second or more in memory."""
    summary: str
    """What it shows, in one line."""
    call: Callable[..., Awaitable[None]]
    arguments: Mapping[str, object]
    fixtures: frozenset[str]
    """What `call` takes beside its parameters: `storage`, `clock`, `open_again`, `tmp_path`."""

    @property
    def id(self) -> str:
        """The name with its parameters."""
        return f"{self.name}[{self.parameters}]" if self.parameters else self.name


class _Parameters(NamedTuple):
    label: str
    values: dict[str, object]
    slow: bool


def cases_of(suite: type) -> tuple[Case, ...]:
    """Return the cases of a suite in the order of their definition."""
    found: list[Case] = []
    for owner in reversed(suite.__mro__):
        for name, member in vars(owner).items():
            if name.startswith("test_"):
                found.extend(_expanded(suite, name, cast("Callable[..., Any]", member)))
    return tuple(found)


def _expanded(suite: type, name: str, method: Callable[..., Any]) -> Iterator[Case]:
    marks = cast("list[pytest.Mark]", getattr(method, "pytestmark", []))
    rules = tuple(str(rule) for mark in marks if mark.name == RULE for rule in mark.args)
    axes = [_axis(mark) for mark in marks if mark.name == "parametrize"]
    taken = inspect.signature(method).parameters
    for chosen in itertools.product(*axes):
        arguments = {name: value for each in chosen for name, value in each.values.items()}
        yield Case(
            suite=suite.__name__,
            name=name,
            parameters="-".join(each.label for each in chosen),
            rules=rules,
            slow=any(mark.name == SLOW for mark in marks) or any(each.slow for each in chosen),
            summary=inspect.cleandoc(method.__doc__ or "").partition("\n")[0],
            call=getattr(suite(), name),
            arguments=arguments,
            fixtures=frozenset(taken) - {"self", *arguments},
        )


def _axis(mark: pytest.Mark) -> list[_Parameters]:
    """Return the values of one `parametrize` marker."""
    names = cast("str | Sequence[str]", mark.args[0])
    split = [each.strip() for each in names.split(",")] if isinstance(names, str) else [*names]
    axis: list[_Parameters] = []
    for index, given in enumerate(cast("Sequence[object]", mark.args[1])):
        values: Sequence[object]
        label: str | None = None
        slow = False
        if isinstance(given, _PARAM):
            values, label = given.values, given.id if isinstance(given.id, str) else None
            slow = any(getattr(each, "name", "") == SLOW for each in given.marks)
        else:
            values = cast("Sequence[object]", given) if len(split) > 1 else (given,)
        parts = [_label(name, index, value) for name, value in zip(split, values, strict=True)]
        named = dict(zip(split, values, strict=True))
        axis.append(_Parameters(label or "-".join(parts), named, slow))
    return axis


def _label(name: str, index: int, value: object) -> str:
    plain = isinstance(value, (int, float)) or value is None
    if isinstance(value, str) and len(value) <= 40 and value.isprintable():
        return value
    return str(value) if plain else f"{name}{index}"
