"""What a saboteur is: one small, plausible mistake, and the case that must find it (CRT-8)."""

from __future__ import annotations

import inspect
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from yielded_testing.saboteurs.proxies import Archives, Bundle, Checkpoints, Ledger, Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager
    from types import ModuleType

    from yielded_core.storage import Storage

WrongPort: TypeAlias = (
    type[Threads] | type[Archives] | type[Checkpoints] | type[Ledger] | type[Bundle]
)
"""A class that passes everything on but what it overrides; its docstring says what is wrong."""

_PREFIX: Final = "yielded_"
_RIGHT: Final = frozenset({Threads, Archives, Checkpoints, Ledger, Bundle, object})


@dataclass(frozen=True, slots=True)
class WrongRule:
    """A rule of the core that is replaced, wherever the project imported it, while cases run."""

    module: ModuleType
    name: str
    wrong: Callable[[Any], Any]
    """Returns what stands in the place of the right rule; its docstring says what is wrong."""
    within: tuple[str, ...] = ()
    """The operations of the ports in which the rule is wrong; empty for wherever it is used."""

    @contextmanager
    def active(self) -> Generator[None]:
        """Replace the rule, and put it back at the end."""
        right = cast("object", vars(self.module)[self.name])
        places = [
            module
            for at, module in list(sys.modules.items())
            if at.startswith(_PREFIX) and vars(module).get(self.name) is right
        ]
        put = self.wrong(right)
        try:
            for place in places:
                setattr(place, self.name, put)
            yield
        finally:
            for place in places:
                setattr(place, self.name, right)


@dataclass(frozen=True, slots=True)
class Saboteur:
    """A wrong adapter: a right one with one mistake."""

    name: str
    rules: tuple[str, ...]
    """The rules that the mistake breaks; a case marked with none of them must pass."""
    caught_by: str
    """The name of the case that must fail."""
    mistake: WrongPort | WrongRule

    @property
    def wrong(self) -> str:
        """What is wrong, in one sentence."""
        mistake = self.mistake
        return inspect.getdoc(mistake.wrong if isinstance(mistake, WrongRule) else mistake) or ""

    @property
    def touches(self) -> frozenset[str]:
        """The operations, or the rule, that are wrong.

        A case that calls none of them cannot notice the mistake.
        """
        if isinstance(self.mistake, WrongRule):
            return frozenset(self.mistake.within or (self.mistake.name,))
        owners = [owner for owner in self.mistake.__mro__ if owner not in _RIGHT]
        return frozenset(name for owner in owners for name in vars(owner))

    def active(self) -> AbstractContextManager[None]:
        """Return the context in which the mistake is made."""
        return self.mistake.active() if isinstance(self.mistake, WrongRule) else nullcontext()

    def wrap(self, storage: Storage) -> Storage:
        """Return the wrong storage around a right one."""
        return self._bundle()(storage)

    def _bundle(self) -> type[Bundle]:
        port = self.mistake
        if isinstance(port, WrongRule):
            return Bundle
        if issubclass(port, Bundle):
            return port
        name = "threads_type" if issubclass(port, Threads) else "checkpoints_type"
        name = "archives_type" if issubclass(port, Archives) else name
        name = "ledger_type" if issubclass(port, Ledger) else name
        return type("Sabotaged", (Bundle,), {name: port})
