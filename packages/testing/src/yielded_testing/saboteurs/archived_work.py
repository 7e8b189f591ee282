"""Saboteurs of the accepted work that archives carry (ARC-2, ARC-4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from yielded_core.ledger import restoring
from yielded_core.ledger.operations import installing
from yielded_core.ledger.operations import reading as reading_operations
from yielded_core.records import bounds
from yielded_core.transfer import export
from yielded_core.transfer import work as transfer_work
from yielded_testing.saboteurs.model import Saboteur, WrongRule
from yielded_testing.saboteurs.proxies import Archives

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yielded_core.ports.values import ImportState
    from yielded_core.ports.work import SubmissionFacts
    from yielded_core.records.identifiers import ThreadId


def _any_revision(_right: object) -> Callable[..., None]:
    """An export goes on whatever became of the facts that it captured."""

    def wrong(*_arguments: object) -> None:
        return None

    return wrong


def _one_more_fact(right: int) -> int:
    """A page may hold one fact more."""
    return right + 1


def _without_settled(right: Callable[..., Any]) -> Callable[..., Any]:
    """Settled work is left out of what an archive carries."""

    def wrong(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        found = right(*arguments, **named)
        return tuple(one for one in found if one.submission.state != "settled")

    return wrong


def _all_ready(right: Callable[..., Any]) -> Callable[..., Any]:
    """Imported work that is not settled begins again from its admission."""

    def wrong(*arguments: Any) -> Any:  # noqa: ANN401
        entry = right(*arguments)
        if entry.submission.state == "settled":
            return entry
        ready = replace(entry.submission, state="ready", input_sequence=None, host=None)
        return replace(entry, submission=ready)

    return wrong


def _never_in_doubt(_right: object) -> Callable[..., bool]:
    """The records of a run are not asked for calls that were left open."""

    def wrong(*_arguments: object) -> bool:
        return False

    return wrong


def _new_receipts(right: Callable[..., Any]) -> Callable[..., Any]:
    """Imported work gets new receipts."""

    def wrong(*arguments: Any) -> Any:  # noqa: ANN401
        entry = right(*arguments)
        name = f"new-{entry.submission.receipt_id}"
        return replace(entry, submission=replace(entry.submission, receipt_id=name))

    return wrong


def _without_lane(_right: object) -> Callable[..., None]:
    """A published import brings its submissions, but the lane does not know of them."""

    def wrong(*_arguments: object) -> None:
        return None

    return wrong


def _unjudged(_right: object) -> Callable[..., None]:
    """Work is imported whether or not the log agrees with it."""

    def wrong(*_arguments: object) -> None:
        return None

    return wrong


class StagesWorkOneByOne(Archives):
    """A group of submissions is staged in a transaction for each."""

    async def stage_work(self, thread: ThreadId, entries: Sequence[SubmissionFacts]) -> ImportState:
        state = await self.inner.stage_work(thread, ())
        for each in entries:
            state = await self.inner.stage_work(thread, [each])
        return state


SABOTEURS: Final = (
    Saboteur(
        "any-fact-revision",
        ("ARC-2",),
        "test_a_new_fact_ends_an_export",
        WrongRule(export, "_require_revision", _any_revision),
    ),
    Saboteur(
        "one-fact-more",
        ("ARC-2", "LOG-15"),
        "test_a_page_holds_up_to_256_facts",
        WrongRule(bounds, "TRANSFER_FACTS", _one_more_fact),
    ),
    Saboteur(
        "leaves-settled-work",
        ("ARC-2", "ARC-4"),
        "test_each_section_holds_its_facts",
        WrongRule(reading_operations, "lane_facts", _without_settled),
    ),
    Saboteur(
        "all-work-begins-again",
        ("ARC-2", "ARC-4"),
        "test_every_state_is_restored",
        WrongRule(restoring, "restored", _all_ready),
    ),
    Saboteur(
        "no-call-in-doubt",
        ("ARC-4",),
        "test_unresolved_calls_stay_unknown",
        WrongRule(restoring, "needs_evidence", _never_in_doubt),
    ),
    Saboteur(
        "new-receipts",
        ("ARC-2", "ARC-4"),
        "test_keys_are_remembered",
        WrongRule(restoring, "restored", _new_receipts),
    ),
    Saboteur(
        "submissions-without-lane",
        ("ARC-2", "ARC-4"),
        "test_no_claim_comes_along",
        WrongRule(installing, "install", _without_lane),
    ),
    Saboteur(
        "work-unlike-its-log",
        ("ARC-4",),
        "test_forged_facts_are_refused",
        WrongRule(transfer_work, "_refuse_disagreement", _unjudged),
    ),
    Saboteur(
        "stages-work-one-by-one",
        ("ARC-4",),
        "test_work_is_staged_in_order_or_not_at_all",
        StagesWorkOneByOne,
    ),
)
