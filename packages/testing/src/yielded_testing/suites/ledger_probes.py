"""Every argument of every operation of accepted work, with what must be refused in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from yielded_core.ports.work import (
    Admission,
    AwaitedChild,
    ClaimHandoff,
    JoiningGuard,
    RunnableLane,
    Suspension,
)
from yielded_core.records.identifiers import SubmissionId, ThreadId
from yielded_testing.suites.builders import PRODUCER, THREAD
from yielded_testing.suites.ledger_values import CALL, receipt, settlement_of
from yielded_testing.suites.values import REFUSED

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from yielded_core.ports.work import Resolution
    from yielded_core.storage import Storage

Arguments: TypeAlias = dict[str, Any]


class Kind(NamedTuple):
    """A kind of argument: a value that serves, and values that do not."""

    right: Any
    wrong: tuple[Any, ...]

    def but(self, *allowed: object) -> Kind:
        """Return the kind without some of its wrong values, which serve here."""
        return Kind(self.right, tuple(each for each in self.wrong if each not in allowed))


_NOT_TEXT: Final = (None, 1, b"text", ["text"])
_NOT_NAMES: Final = ("", "a\x00", "\x00", "\ud800", "a\udfff", *_NOT_TEXT)

IDENTIFIER: Final = Kind("name", (*_NOT_NAMES, "x" * 4_097, "\U0001f9f5" * 2_049))
SHORT: Final = Kind("name", (*_NOT_NAMES, "x" * 257, "\U0001f9f5" * 129))
TEXT: Final = Kind("why", ("a\x00", "\ud800", "x" * 65_537, "\U0001f9f5" * 32_769, *_NOT_TEXT))
LEASE: Final = Kind(1, (0, -1, 86_400_001, 2**63, True, 1.0, "1", None))
EPOCH: Final = Kind(1, (0, -1, 10**18, 2**63, True, 1.0, "1", None))
SEQUENCE: Final = Kind(1, (-1, 2**53 + 1, 2**63, True, 1.0, "1", None))
UP_TO_256: Final = Kind(1, (0, -1, 257, True, 1.0, "1", None))
UP_TO_1024: Final = Kind(1, (0, -1, 1_025, True, 1.0, "1", None))
_DIGEST: Final = "a" * 64
DIGEST: Final = Kind(
    _DIGEST, ("", _DIGEST[1:], _DIGEST + "a", "A" * 64, "g" * 64, f"{_DIGEST}\n", *_NOT_TEXT)
)
JSON: Final = Kind({"a": [1]}, tuple(REFUSED.values()))


def choice(right: str) -> Kind:
    """Return the kind of an argument that is one of a few words."""
    return Kind(right, ("", "maybe", right.upper(), f"{right} ", None, 1, [right]))


def many(size: int) -> Kind:
    """Return the kind of a number of things, from 1 to 256."""
    return Kind(size, (0, 257))


PLACE: Final = {"thread": IDENTIFIER, "submission": IDENTIFIER}
OWNED: Final = {**PLACE, "token": SHORT}
CHILD: Final = {"child_thread": IDENTIFIER, "child_submission": IDENTIFIER}


@dataclass(frozen=True, slots=True)
class Probe:
    """One operation, its arguments, and a call with any of them."""

    arguments: dict[str, Kind]
    call: Callable[[Storage, Arguments], Coroutine[Any, Any, object]]

    def right(self) -> Arguments:
        """Return arguments that are not refused for what they are."""
        return {name: kind.right for name, kind in self.arguments.items()}


def _child(given: Arguments) -> AwaitedChild:
    return AwaitedChild(given.pop("child_thread"), given.pop("child_submission"))


def _plain(name: str) -> Callable[[Storage, Arguments], Coroutine[Any, Any, object]]:
    return lambda storage, given: getattr(storage.ledger, name)(**given)


def _with_child(name: str) -> Callable[[Storage, Arguments], Coroutine[Any, Any, object]]:
    return lambda storage, given: getattr(storage.ledger, name)(child=_child(given), **given)


def _admit(storage: Storage, given: Arguments) -> Coroutine[Any, Any, object]:
    return storage.ledger.admit(Admission(**given))


def _handoff(storage: Storage, given: Arguments) -> Coroutine[Any, Any, object]:
    deferred = tuple([given.pop("deferred")] * given.pop("heads"))
    handoff = ClaimHandoff(given.pop("epoch"), deferred, given.pop("target"))
    return storage.ledger.claim(handoff=handoff, **given)


def _scan(storage: Storage, given: Arguments) -> Coroutine[Any, Any, object]:
    after = (given.pop("thread"), given.pop("place"))
    return storage.ledger.scan_nonterminal(after=after, **given)


def _runnable(storage: Storage, given: Arguments) -> Coroutine[Any, Any, object]:
    after = RunnableLane(given.pop("thread"), given.pop("since"))
    return storage.ledger.runnable(after=after, **given)


def _guarded(storage: Storage, given: Arguments) -> Coroutine[Any, Any, object]:
    guard = JoiningGuard(given.pop("host"), given.pop("token"))
    return storage.ledger.revert_joining(guard=guard, **given)


def _suspend_calls(storage: Storage, given: Arguments) -> Coroutine[Any, Any, object]:
    waiting = Suspension(tuple([given.pop("call")] * given.pop("count")))
    return storage.ledger.suspend(waiting_for=waiting, **given)


def _suspend_children(storage: Storage, given: Arguments) -> Coroutine[Any, Any, object]:
    waiting = Suspension(children=tuple([_child(given)] * given.pop("count")))
    return storage.ledger.suspend(waiting_for=waiting, **given)


def _suspend_both(storage: Storage, given: Arguments) -> Coroutine[Any, Any, object]:
    children = (AwaitedChild(ThreadId("t"), SubmissionId("s")),) * given.pop("children")
    return storage.ledger.suspend(waiting_for=Suspension((CALL,), children), **given)


def _suspend_aborted(storage: Storage, given: Arguments) -> Coroutine[Any, Any, object]:
    return storage.ledger.suspend(waiting_for=Suspension((CALL,)), **given)


def _mark_unknown(storage: Storage, given: Arguments) -> Coroutine[Any, Any, object]:
    calls = [(given.pop("call"), given.pop("reason"))] * given.pop("count")
    return storage.ledger.mark_unknown(calls=calls, **given)


def _resolve(
    resolution: Resolution,
) -> Callable[[Storage, Arguments], Coroutine[Any, Any, object]]:
    return lambda storage, given: storage.ledger.record_unknown_resolution(
        resolution=resolution, **given
    )


def _publish(storage: Storage, given: Arguments) -> Coroutine[Any, Any, object]:
    right = settlement_of(receipt(SubmissionId("name"), THREAD))
    payload = right.payload.model_copy(update=given.pop("payload"))
    record = right.model_copy(update={"payload": payload})
    return storage.settlements.publish(record=record, **given)


_PAYLOAD: Final = Kind(
    {},
    (
        {"submission_id": ""},
        {"submission_id": "a\x00"},
        {"submission_id": "another"},
        {"settlement_id": "settlement:another"},
        {"receipt_id": "\ud800"},
        {"outcome": "failed", "result": {"answer": 42}},
        {"outcome": "failed", "result": None},
        {"outcome": "aborted", "result": {"answer": 42}},
        {"result": float("nan")},
        {"result": {"a": "x" * 1_048_576}},
    ),
)
_RESOLVED: Final = {**PLACE, "call": IDENTIFIER, "author": SHORT, "reason": TEXT}

PROBES: Final[dict[str, Probe]] = {
    "lookup": Probe({"submission": IDENTIFIER}, _plain("lookup")),
    "lookup_key": Probe(
        {"thread": IDENTIFIER, "principal": SHORT, "key": SHORT}, _plain("lookup_key")
    ),
    "resolve_admission": Probe(
        {"thread": IDENTIFIER, "principal": SHORT, "key": SHORT}, _plain("resolve_admission")
    ),
    "read_abort_intent": Probe(PLACE, _plain("read_abort_intent")),
    "lane": Probe({"thread": IDENTIFIER}, _plain("lane")),
    "scan_nonterminal": Probe(
        {"thread": IDENTIFIER, "place": SEQUENCE, "limit": UP_TO_1024}, _scan
    ),
    "runnable": Probe({"thread": IDENTIFIER, "since": SEQUENCE, "limit": UP_TO_1024}, _runnable),
    "load_recovery_snapshot": Probe(PLACE, _plain("load_recovery_snapshot")),
    "admit": Probe(
        {
            "thread_id": IDENTIFIER,
            "principal": SHORT,
            "idempotency_key": SHORT,
            "input": JSON,
            "group": SHORT.but(None),
            "linkage": JSON,
            "message": JSON,
        },
        _admit,
    ),
    "mark_ready": Probe(PLACE, _plain("mark_ready")),
    "claim": Probe(
        {"thread": IDENTIFIER, "attempt": IDENTIFIER, "token": SHORT, "lease": LEASE},
        _plain("claim"),
    ),
    "claim with a handoff": Probe(
        {
            "thread": IDENTIFIER,
            "attempt": IDENTIFIER,
            "token": SHORT,
            "lease": LEASE,
            "epoch": EPOCH,
            "deferred": IDENTIFIER,
            "heads": many(1),
            "target": IDENTIFIER,
        },
        _handoff,
    ),
    "renew": Probe({"thread": IDENTIFIER, "token": SHORT, "lease": LEASE}, _plain("renew")),
    "release": Probe({"thread": IDENTIFIER, "token": SHORT}, _plain("release")),
    "mark_input_applied": Probe({**OWNED, "sequence": SEQUENCE}, _plain("mark_input_applied")),
    "request_abort": Probe({**PLACE, "author": SHORT, "reason": TEXT}, _plain("request_abort")),
    "claim_joining": Probe(
        {"thread": IDENTIFIER, "host": IDENTIFIER, "token": SHORT, "limit": UP_TO_256},
        _plain("claim_joining"),
    ),
    "mark_joined": Probe({**PLACE, "sequence": SEQUENCE}, _plain("mark_joined")),
    "revert_joining": Probe(PLACE, _plain("revert_joining")),
    "revert_joining with a guard": Probe(
        {**PLACE, "host": IDENTIFIER, "token": SHORT.but(None)}, _guarded
    ),
    "suspend for calls": Probe({**OWNED, "call": IDENTIFIER, "count": many(1)}, _suspend_calls),
    "suspend for children": Probe({**OWNED, **CHILD, "count": many(1)}, _suspend_children),
    "suspend for both": Probe({**OWNED, "children": Kind(0, (1, 256))}, _suspend_both),
    "suspend for calls, aborted": Probe(
        {**OWNED, "despite_abort": Kind(right=False, wrong=(True,))}, _suspend_aborted
    ),
    "record_approval_decision": Probe(
        {
            **PLACE,
            "call": IDENTIFIER,
            "decision": choice("approved"),
            "resolver": SHORT,
            "reason": TEXT,
        },
        _plain("record_approval_decision"),
    ),
    "mark_unknown": Probe(
        {**PLACE, "run": IDENTIFIER, "call": IDENTIFIER, "reason": TEXT, "count": many(1)},
        _mark_unknown,
    ),
    "record_unknown_resolution": Probe(
        {**_RESOLVED, "resolution": choice("safe-to-retry")}, _plain("record_unknown_resolution")
    ),
    "record_unknown_resolution with a result": Probe(
        {**_RESOLVED, "result": JSON}, _resolve("completed-with-result")
    ),
    "record_unknown_resolution without one": Probe(
        {**_RESOLVED, "result": Kind(None, (0, False, {}, "done"))}, _resolve("never-happened")
    ),
    "reserve_child": Probe(
        {**OWNED, "call": IDENTIFIER, "reservation_id": SHORT, "digest": DIGEST},
        _plain("reserve_child"),
    ),
    "attach_child": Probe({**OWNED, "call": IDENTIFIER, **CHILD}, _with_child("attach_child")),
    "begin_release": Probe(
        {**PLACE, "token": SHORT.but(None), "call": IDENTIFIER, "accounting": JSON},
        _plain("begin_release"),
    ),
    "release_child": Probe(
        {**PLACE, "token": SHORT.but(None), "call": IDENTIFIER}, _plain("release_child")
    ),
    "record_child_settled": Probe({**PLACE, **CHILD}, _with_child("record_child_settled")),
    "finalize_settlement": Probe(
        {**PLACE, "settlement": IDENTIFIER}, _plain("finalize_settlement")
    ),
    "publish": Probe(
        {
            "thread": IDENTIFIER,
            "payload": _PAYLOAD,
            "producer": Kind(PRODUCER, IDENTIFIER.wrong),
            "token": SHORT,
            "authority": choice("owned"),
        },
        _publish,
    ),
}
"""Every operation by its name, some of them twice for another form."""
