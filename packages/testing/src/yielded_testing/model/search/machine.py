"""The state machine that drives random commands, and the one call that runs it over an adapter."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from yielded_testing.model.comparing import Comparison, Tally
from yielded_testing.model.replaying import failure_of, program, shortened
from yielded_testing.model.search.choosing import CHOICE_NAMES, THEMES, available, chosen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yielded_testing.model.commands.base import Command
    from yielded_testing.model.reference.world import World
    from yielded_testing.model.search.chooser import Theme
    from yielded_testing.model.store import Adapter


class LedgerMachine(RuleBasedStateMachine):
    """Random commands to a store and to the model, compared after each."""

    adapter: ClassVar[Adapter]
    theme: ClassVar[Theme]
    tally: ClassVar[Tally]
    given: ClassVar[list[Command]]
    """What the newest machine was given."""

    def __init__(self) -> None:
        super().__init__()
        self.given.clear()
        self._resources = ExitStack()
        self._runner = self._resources.enter_context(asyncio.Runner())
        folder = self._resources.enter_context(tempfile.TemporaryDirectory())
        self._comparison = Comparison(self.adapter, Path(folder), self.tally)
        self.choices = available(self.adapter, set())

    @property
    def world(self) -> World:
        """What the commands are chosen by."""
        return self._comparison.world

    @initialize(without=st.sets(st.sampled_from(CHOICE_NAMES), max_size=len(CHOICE_NAMES) // 2))
    def begin(self, without: set[str]) -> None:
        """Open the store; some commands are left out, so that others meet each other more often."""
        self.choices = available(self.adapter, without)
        self._runner.run(self._comparison.store.open())

    @rule(command=chosen())
    def give(self, command: Command) -> None:
        """Give a command to both, and compare."""
        self.given.append(command)
        self._runner.run(self._comparison.run(command))

    def teardown(self) -> None:
        """Look at what recovery would do, close the store and leave nothing behind."""
        with self._resources:
            self._runner.run(self._ended())

    async def _ended(self) -> None:
        try:
            await self._comparison.recover()
        finally:
            await self._comparison.store.close()


def check_ledger(
    adapter: Adapter,
    *,
    examples: int = 64,
    steps: int = 60,
    themes: Sequence[Theme] = THEMES,
    at: int | None = None,
    shorten: bool = True,
) -> Tally:
    """Compare an adapter with the model, and return how often each command had which effect.

    `examples` sequences of up to `steps` commands are tried, as many for each of the themes, which
    are what owners do most. A sequence that fails is made as short as it can be, unless `shorten`
    is False, and stands in the error as a program for `replay`, beside the number `at` with which
    the search began: the same number tries the same sequences. Raises Disagreement, or what else
    the adapter fails with. Blocks, and must not be called while an event loop runs in the same
    thread.
    """
    begin = secrets.randbits(32) if at is None else at
    tally = Tally()
    given: list[Command] = []
    chosen_settings = _settings(-(-examples // len(themes)), steps)
    try:
        for theme in themes:
            bound = {"adapter": adapter, "theme": theme, "tally": tally, "given": given}
            machine = type("Ledger", (LedgerMachine,), bound)
            run_state_machine_as_test(seed(begin)(machine), settings=chosen_settings)
    except Exception as error:  # noqa: BLE001 - whatever an adapter fails with is a finding
        commands = shortened(adapter, given) if shorten else given
        found = failure_of(adapter, commands) or error
        found.add_note(f"{program(commands)}\nIt is found again with at={begin}.")
        raise found from None
    return tally


def _settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        database=None,
        deadline=None,
        phases=(Phase.generate,),  # a list of commands is shortened faster as such
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=(
            HealthCheck.data_too_large,
            HealthCheck.filter_too_much,
            HealthCheck.large_base_example,
            HealthCheck.too_slow,
        ),
    )
