"""Cases of the bounds of a run: what would pass one is refused, what reaches it is not (LOG-14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from yielded_testing.suites.builders import Writer, note, record_bytes
from yielded_testing.suites.progress import begun, refusal
from yielded_testing.suites.runs import RunScript

if TYPE_CHECKING:
    from yielded_core.storage import Storage

KIB: Final = 1_024
MIB: Final = 1_024 * KIB
BOUND: Final = "continuation-bound"


class RunLimitCases:
    """LOG-14: record, suffix, turn, terminal facts and all of a run."""

    @pytest.mark.rule("LOG-14", "LOG-16")
    async def test_64_facts_may_follow_a_continuation(self, storage: Storage) -> None:
        """The 65th is refused, alone and in a batch, until a continuation comes with it."""
        run, other = RunScript(), RunScript("2")
        writer = await begun(storage, run)
        await writer.append(*(run.usage() for _ in range(30)))
        await writer.append(*other.begin(), note("noise"), *(run.usage() for _ in range(34)))
        late = RunScript(**vars(run))
        assert (await refusal(writer, run, late.usage())).reason == BOUND
        await writer.append(run.usage(), run.continuation())
        await writer.append(*(run.usage() for _ in range(64)))

    @pytest.mark.rule("LOG-14", "LOG-16")
    async def test_65_facts_in_one_batch_are_too_many(self, storage: Storage) -> None:
        """The bound holds for what one append adds."""
        run = RunScript()
        writer = await begun(storage, run)
        assert (await refusal(writer, run, *(run.usage() for _ in range(65)))).reason == BOUND

    @pytest.mark.slow_case
    @pytest.mark.rule("LOG-14", "LOG-16")
    @pytest.mark.parametrize("excess", [0, 1])
    async def test_2_mib_may_follow_a_continuation(self, storage: Storage, excess: int) -> None:
        """Exactly 2 MiB of facts pass, one byte more does not."""
        run = RunScript()
        writer = await begun(storage, run)
        await writer.append(run.sized(MIB))
        last = run.sized(MIB + excess)
        if excess:
            assert (await refusal(writer, run, last)).reason == BOUND
        else:
            await writer.append(last)

    @pytest.mark.slow_case
    @pytest.mark.rule("LOG-14", "LOG-16")
    @pytest.mark.parametrize("excess", [0, 1])
    async def test_a_turn_holds_4_mib(self, storage: Storage, excess: int) -> None:
        """Exactly 4 MiB of facts of a turn pass; the next turn counts anew."""
        run = RunScript()
        writer = await Writer.begin(storage)
        await writer.append(*run.begin(), run.response(1))
        await writer.append(*(run.sized(MIB) for _ in range(3)))
        last = run.sized(4 * MIB - run.turn_bytes + excess)
        if excess:
            assert (await refusal(writer, run, last)).reason == BOUND
        else:
            await writer.append(last)
            await writer.append(run.response(2), run.sized(MIB), run.continuation())

    @pytest.mark.rule("LOG-14", "LOG-16")
    async def test_a_run_has_4_terminal_facts(self, storage: Storage) -> None:
        """A fifth terminal fact is refused; they do not count as suffix."""
        run = RunScript()
        writer = await begun(storage, run)
        await writer.append(*(run.usage() for _ in range(64)))
        terminal = ("ModelCompleted", "RunFailed", "RunCompleted", "SubmissionSettled")
        await writer.append(*(run.fact(tag) for tag in terminal))
        assert (await refusal(writer, run, run.fact("RunFailed"))).reason == BOUND

    @pytest.mark.slow_case
    @pytest.mark.rule("LOG-14", "LOG-16")
    @pytest.mark.parametrize("excess", [0, 1])
    async def test_terminal_facts_hold_8_25_mib(self, storage: Storage, excess: int) -> None:
        """Exactly 8.25 MiB of terminal facts pass, one byte more does not."""
        run = RunScript()
        writer = await begun(storage, run)
        await writer.append(*(run.sized_terminal(11 * MIB // 4) for _ in range(2)))
        last = run.sized_terminal(11 * MIB // 4 + excess)
        if excess:
            assert (await refusal(writer, run, last)).reason == BOUND
        else:
            await writer.append(last, run.continuation())

    @pytest.mark.rule("LOG-14", "LOG-16")
    @pytest.mark.parametrize("excess", [0, 1])
    async def test_a_continuation_holds_8_kib(self, storage: Storage, excess: int) -> None:
        """Exactly 8 KiB of canonical record pass, one byte more does not."""
        run = RunScript("n" * 700)
        writer = await Writer.begin(storage)
        facts = run.begin()
        stated = run.continuation()
        length = len(stated.deployment_id) + 8 * KIB - len(record_bytes(stated)) + excess
        sized = stated.model_copy(update={"deployment_id": "d" * length})
        assert len(record_bytes(sized)) == 8 * KIB + excess
        if excess:
            assert (await refusal(writer, run, *facts, sized)).reason == BOUND
        else:
            await writer.append(*facts, sized)

    @pytest.mark.slow_case
    @pytest.mark.rule("LOG-14", "LOG-16")
    async def test_a_run_has_16_384_facts(self, storage: Storage) -> None:
        """One more is refused, though each continuation was in time."""
        run = RunScript()
        writer = await begun(storage, run)
        turn = 0
        while run.record_count < 16_384:
            turn += 1
            count = min(64, 16_384 - run.record_count)
            facts = [run.response(turn), *(run.usage() for _ in range(count - 1))]
            await writer.append(*facts, run.continuation())
        assert (await refusal(writer, run, run.usage())).reason == BOUND

    @pytest.mark.slow_case
    @pytest.mark.rule("LOG-14", "LOG-16")
    @pytest.mark.parametrize("excess", [0, 1])
    async def test_a_run_has_32_mib_of_facts(self, storage: Storage, excess: int) -> None:
        """Exactly 32 MiB pass, one byte more does not."""
        run = RunScript()
        writer = await begun(storage, run)
        turn = 0
        while run.record_bytes < 30 * MIB:
            turn += 1
            facts = [run.response(turn), run.sized(MIB - KIB), run.sized(MIB - KIB)]
            await writer.append(*facts, run.continuation())
        rest = 32 * MIB - run.record_bytes
        last = [run.sized(rest // 2), run.sized(rest - rest // 2 + excess)]
        if excess:
            assert (await refusal(writer, run, *last)).reason == BOUND
        else:
            await writer.append(*last, run.continuation())
