"""The verifier of a log: what passes, and what each fault is found as."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from yielded_core.digest import epoch_seal
from yielded_core.log.verifier import (
    CHAIN,
    CONTINUATION,
    IDENTITY,
    SCHEMA,
    SEQUENCE,
    TERMINAL,
    LogVerifier,
)
from yielded_core.ports.values import Finding, StoredBatch, ThreadTail
from yielded_core.records import payloads as p
from yielded_core.records.identifiers import (
    BatchId,
    Digest,
    ProducerId,
    RecordId,
    RunId,
    ToolCallId,
)
from yielded_testing.sample_parts import Subject, sample_accounting
from yielded_testing.samples import sample_payload
from yielded_testing.suites.archive_pages import stored_log
from yielded_testing.suites.builders import (
    NOWHERE,
    THREAD,
    batch,
    note,
    notes,
    record,
    record_bytes,
    record_digest,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from yielded_core.records.envelope import Record

INVARIANTS = (SCHEMA, IDENTITY, SEQUENCE, CHAIN, CONTINUATION, TERMINAL)
LOG = stored_log(
    batch("batch-1", *notes("a", 2, {"text": "Zürich"})),
    batch("batch-2", note("b-1", [0.5, 1e21])),
    batch("batch-3", *notes("c", 3)),
    epoch=2,
)


def tail_of(log: Sequence[StoredBatch], epoch: int = 9) -> ThreadTail:
    return ThreadTail(THREAD, log[-1].last_sequence, log[-1].tail_digest, epoch)


def verify(log: Iterable[StoredBatch], tail: ThreadTail) -> dict[str, Finding]:
    with LogVerifier(THREAD) as verifier:
        for each in log:
            verifier.feed(each)
        return {finding.invariant: finding for finding in verifier.finish(tail)}


def failures(log: Sequence[StoredBatch], tail: ThreadTail | None = None) -> dict[str, str]:
    """Return the details of the invariants that fail, by name."""
    found = verify(log, tail or tail_of(log))
    return {name: each.detail for name, each in found.items() if each.outcome == "failed"}


def changed(index: int, **changes: object) -> list[StoredBatch]:
    return [*LOG[:index], replace(LOG[index], **changes), *LOG[index + 1 :]]


# --- A right log ---------------------------------------------------------------------------------


@pytest.mark.rule("ARC-3")
def test_a_right_log_passes_and_is_counted() -> None:
    with LogVerifier(THREAD) as verifier:
        decoded = [verifier.feed(each) for each in LOG]
        findings = verifier.finish(tail_of(LOG))
        assert verifier.fault is None
    assert [finding.invariant for finding in findings] == [*INVARIANTS]
    assert {finding.outcome for finding in findings} == {"passed"}
    assert (verifier.records, verifier.batches) == (6, 3)
    assert verifier.wire_bytes == sum(len(wire) for each in LOG for _, wire in each.records)
    for each, prepared in zip(LOG, decoded, strict=True):
        assert prepared is not None
        assert [encoded.wire for encoded in prepared.records] == [wire for _, wire in each.records]
        assert prepared.content_digest == each.content_digest


@pytest.mark.rule("ARC-3")
def test_an_empty_log_passes() -> None:
    empty = ThreadTail(THREAD, 0, Digest("0" * 64), 1)
    assert {verify([], empty)[name].outcome for name in INVARIANTS} == {"passed"}


# --- Every byte ----------------------------------------------------------------------------------


def _flipped(data: bytes) -> Iterable[bytes]:
    for index in range(len(data)):
        for mask in (0x01, 0x20, 0x80):
            other = bytearray(data)
            other[index] ^= mask
            yield bytes(other)


def _flipped_text(text: str) -> Iterable[str]:
    for other in _flipped(text.encode()):
        yield other.decode(errors="surrogateescape")


@pytest.mark.rule("ARC-3", "REC-7")
@pytest.mark.parametrize("index", range(len(LOG)))
def test_every_changed_byte_of_a_stored_batch_is_found(index: int) -> None:
    stored = LOG[index]
    found: list[list[StoredBatch]] = []
    for name in ("batch_id", "producer_id", "content_digest", "tail_digest", "epoch_seal"):
        found += [changed(index, **{name: each}) for each in _flipped_text(getattr(stored, name))]
    for place, (record_id, wire) in enumerate(stored.records):
        others = [(each, wire) for each in _flipped_text(record_id)]
        others += [(record_id, each) for each in _flipped(wire)]
        for other in others:
            records = (*stored.records[:place], other, *stored.records[place + 1 :])
            found.append(changed(index, records=records))
    for name in ("first_sequence", "last_sequence"):
        for bit in range(63):
            found.append(changed(index, **{name: getattr(stored, name) ^ (1 << bit)}))
    for log in found:
        assert failures(log, tail_of(LOG)), log[index]


@pytest.mark.rule("ARC-3", "REC-7")
def test_every_changed_byte_of_the_tail_is_found() -> None:
    tail = tail_of(LOG)
    for digest in _flipped_text(tail.digest):
        assert set(failures(LOG, replace(tail, digest=Digest(digest)))) == {CHAIN}
    for sequence in (0, 5, 7):
        assert set(failures(LOG, replace(tail, sequence=sequence))) == {SEQUENCE}


@pytest.mark.rule("ARC-3", "LOG-4")
def test_another_epoch_is_found_wherever_it_stands() -> None:
    """An epoch is no content of the log (LOG-4): a seal of its own covers it."""
    for index in range(3):
        for epoch in range(1, 12):
            if epoch != LOG[index].epoch:
                assert CHAIN in failures(changed(index, epoch=epoch))
    assert set(failures(changed(1, epoch=1))) == {CHAIN, SEQUENCE}
    assert set(failures(changed(1, epoch=3))) == {CHAIN, SEQUENCE}
    assert set(failures(changed(2, epoch=10))) == {CHAIN, SEQUENCE}
    assert set(failures(LOG, tail_of(LOG, epoch=1))) == {SEQUENCE}


def resealed(index: int, epoch: int) -> list[StoredBatch]:
    seal = epoch_seal(epoch, LOG[index].content_digest, LOG[index].tail_digest)
    return changed(index, epoch=epoch, epoch_seal=seal)


@pytest.mark.rule("ARC-3")
def test_an_epoch_under_its_seal_may_not_fall_nor_be_above_the_thread() -> None:
    assert failures(resealed(2, 7)) == {}
    assert failures(resealed(1, 1))[SEQUENCE].startswith("sequence 3: epoch 1 follows 2")
    assert failures(resealed(1, 3))[SEQUENCE].startswith("sequence 4: epoch 2 follows 3")
    assert set(failures(resealed(2, 10))) == {SEQUENCE}


@pytest.mark.rule("ARC-3")
def test_bytes_that_moved_from_one_record_to_the_next_are_found() -> None:
    (first, one), (second, two) = LOG[0].records
    for cut in (1, len(one) - 1):
        moved = ((first, one[:cut]), (second, one[cut:] + b"," + two))
        assert SCHEMA in failures(changed(0, records=moved))
    joined = one + b"," + two
    assert SCHEMA in failures(changed(0, records=((first, joined), (second, b""))))


# --- The first place of each fault ---------------------------------------------------------------


@pytest.mark.rule("ARC-3")
def test_a_break_of_the_chain_is_named_where_it_is_and_the_sweep_goes_on() -> None:
    broken = replace(LOG[0], tail_digest=NOWHERE)
    found = failures([broken, *LOG[1:]])
    assert set(found) == {CHAIN}
    assert found[CHAIN].startswith("sequence 1: ")
    later = failures([LOG[0], LOG[1], replace(LOG[2], content_digest=NOWHERE)])
    assert later[CHAIN].startswith("sequence 4: the content digest")
    last = failures([*LOG[:2], replace(LOG[2], records=LOG[2].records[:2])])
    assert set(last) == {SEQUENCE, CHAIN}
    relinked = stored_log(batch("batch-1", *notes("a", 2)), batch("batch-2", note("b")))
    other = replace(relinked[0], tail_digest=NOWHERE)
    assert failures([other, relinked[1]])[CHAIN].startswith("sequence 1: ")


@pytest.mark.rule("ARC-3")
def test_a_missing_and_a_doubled_batch_are_found() -> None:
    assert set(failures([LOG[0], LOG[2]])) == {SEQUENCE, CHAIN}
    assert set(failures([LOG[0], LOG[0], *LOG[1:]])) == {SEQUENCE, CHAIN, IDENTITY}
    assert set(failures(LOG[:2], tail_of(LOG))) == {SEQUENCE}
    assert set(failures([replace(LOG[0], records=()), *LOG[1:]])) == {SEQUENCE, CHAIN}


@pytest.mark.rule("ARC-3")
def test_what_the_store_could_not_give_is_a_finding() -> None:
    with LogVerifier(THREAD) as verifier:
        verifier.feed(LOG[0])
        verifier.unreadable("the batch is not there")
        findings = {each.invariant: each for each in verifier.finish(tail_of(LOG))}
    assert findings[SEQUENCE] == Finding(SEQUENCE, "failed", "sequence 3: the batch is not there")


@pytest.mark.rule("ARC-3", "REC-4", "REC-6")
@pytest.mark.parametrize(
    ("wire", "detail"),
    [
        (record_bytes(note("b-1")).replace(b'":{', b'": {', 1), "canonical"),
        (record_bytes(note("b-1", 1)).replace(b":1,", b":1.0,", 1), "canonical"),
        (record_bytes(note("b-1")).replace(b"RepairAnnotated", b"RepairForgotten"), "_tag"),
        (record_bytes(note("b-1")).replace(b'"a note"', b"7"), "payload.reason"),
        (b"", "JSON"),
    ],
)
def test_a_record_that_does_not_decode_is_named_with_its_rule(wire: bytes, detail: str) -> None:
    found = verify(changed(1, records=((RecordId("b-1"), wire),)), tail_of(LOG))
    assert found[SCHEMA].outcome == "failed"
    assert found[SCHEMA].detail.startswith("sequence 3: ")
    assert detail in found[SCHEMA].detail
    assert found[CONTINUATION].outcome == "skipped"
    assert found[IDENTITY].outcome == "passed"


@pytest.mark.rule("ARC-3", "REC-3")
def test_a_batch_beyond_its_bounds_is_found() -> None:
    large = stored_log(batch("large", *notes("a", 17, "x" * 1_000_000)))
    assert set(failures(large)) == {SCHEMA}
    assert "16777216 bytes" in failures(large)[SCHEMA]
    assert set(failures(stored_log(batch("many", *notes("a", 257))))) == {SEQUENCE}


@pytest.mark.rule("ARC-3")
def test_a_record_kept_under_another_id_is_found() -> None:
    swapped = tuple(
        (RecordId("a-2" if each == "a-1" else "a-1"), wire) for each, wire in LOG[0].records
    )
    assert failures(changed(0, records=swapped))[SCHEMA].startswith("sequence 1: ")


@pytest.mark.rule("ARC-3", "LOG-4")
def test_repeated_identities_of_records_and_batches_are_found() -> None:
    records = stored_log(
        batch("batch-1", *notes("a", 3)), batch("batch-2", note("b"), note("a-2"), note("a-1"))
    )
    assert failures(records) == {IDENTITY: "sequence 5: an identity stands here a second time"}
    inside = stored_log(batch("batch-1", note("a"), note("a")))
    assert failures(inside) == {IDENTITY: "sequence 2: an identity stands here a second time"}
    batches = stored_log(batch("batch-1", note("a")), batch("batch-1", note("b")))
    assert failures(batches) == {IDENTITY: "sequence 2: an identity stands here a second time"}
    apart = stored_log(batch("a", note("a")), batch("b", note("b")))
    assert failures(apart) == {}


@pytest.mark.rule("ARC-3")
@pytest.mark.parametrize("identifier", ["", "a\u0000b", "\ud800", "x" * 4_097])
def test_identifiers_that_are_none_are_found(identifier: str) -> None:
    assert CHAIN in failures(changed(1, batch_id=BatchId(identifier)))
    assert CHAIN in failures(changed(1, producer_id=ProducerId(identifier)))
    records = ((RecordId(identifier), LOG[1].records[0][1]),)
    assert SCHEMA in failures(changed(1, records=records))


# --- Runs ----------------------------------------------------------------------------------------

RUN = Subject()


def run_records(*names: str) -> list[Record]:
    return [record(f"{name}-record", sample_payload(name, RUN)) for name in names]


def reference(given: Record) -> p.EvidenceReference:
    return p.EvidenceReference(record_id=given.record_id, digest=record_digest(given))


def continuation(facts: Sequence[Record], turn: int, turn_facts: int) -> p.RunContinuation:
    """Return the first continuation of a run with these facts, the last ones of its turn."""
    sizes = [len(record_bytes(fact)) for fact in facts]
    responses = [fact for fact in facts if isinstance(fact.payload, p.ModelResponseRecorded)]
    return p.RunContinuation(
        version=1,
        run_id=RUN.run,
        submission_id=RUN.submission,
        revision=1,
        record_count=len(facts),
        record_bytes=sum(sizes),
        turn=turn,
        turn_bytes=sum(sizes[-turn_facts:]),
        terminal_bytes=0,
        terminal_records=0,
        terminal_usage_bytes=0,
        original_input=reference(facts[0]),
        latest_response=reference(responses[-1]) if responses else None,
        last_fact=reference(facts[-1]),
        position="awaiting-model",
        accounting=sample_accounting(),
    )


FACTS = run_records("UserInputRecorded", "RunStarted", "ModelResponseRecorded", "ToolCallSettled")
CONTINUED = continuation(FACTS, 1, 2)


def run_log(**changes: object) -> list[StoredBatch]:
    payload = CONTINUED.model_copy(update=changes)
    last = (*FACTS[2:], record("continuation", payload))
    return stored_log(batch("batch-1", *FACTS[:2]), batch("batch-2", *last))


@pytest.mark.rule("ARC-3", "LOG-16")
def test_a_right_continuation_passes() -> None:
    assert failures(run_log()) == {}


@pytest.mark.rule("ARC-3", "LOG-16")
@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("revision", 2, "revision"),
        ("record_count", 3, "counters"),
        ("record_bytes", 1, "counters"),
        ("turn_bytes", 1, "counters"),
        ("terminal_records", 1, "counters"),
        ("original_input", reference(FACTS[1]), "references"),
        ("latest_response", None, "references"),
        ("last_fact", reference(FACTS[2]), "last-fact"),
    ],
)
def test_a_continuation_that_the_facts_do_not_bear_out_is_found(
    name: str, value: object, reason: str
) -> None:
    found = failures(run_log(**{name: value}))
    assert set(found) == {CONTINUATION}
    assert found[CONTINUATION].startswith(f"sequence 3: run run:submission-1: {reason}: ")


@pytest.mark.rule("ARC-3", "LOG-16")
def test_facts_after_the_settlement_still_count() -> None:
    terminal = run_records("RunCompleted", "SubmissionSettled")
    late = run_records("ToolCallResolved")
    log = stored_log(batch("batch-1", *FACTS), batch("batch-2", *terminal), batch("batch-3", *late))
    assert failures(log) == {}
    assert failures(stored_log(batch("batch-1", *FACTS), batch("batch-2", *late))) == {}
    many = [record(f"late-{number}", late[0].payload) for number in range(65)]
    bound = stored_log(
        batch("batch-1", *FACTS, record("continuation", CONTINUED)),
        batch("batch-2", *terminal),
        *(batch(f"late-{number}", each) for number, each in enumerate(many)),
    )
    found = failures(bound)
    assert set(found) == {CONTINUATION}
    assert "continuation-bound" in found[CONTINUATION]


@pytest.mark.rule("ARC-3", "LOG-15")
def test_a_handoff_is_closed_once_and_only_when_open() -> None:
    prepared = record("record-27", sample_payload("PeerMessagePrepared"))
    closed = record("closed", sample_payload("WorkHandoffCompleted"))
    again = record("again", closed.payload)
    right = stored_log(batch("batch-1", prepared), batch("batch-2", closed))
    assert failures(right) == {}
    for log in (
        stored_log(batch("batch-1", closed), batch("batch-2", prepared)),
        stored_log(batch("batch-1", prepared), batch("batch-2", closed), batch("batch-3", again)),
    ):
        assert "handoff" in failures(log)[CONTINUATION]


@pytest.mark.rule("ARC-3", "REC-6")
def test_records_in_the_wrong_place_or_company_are_found() -> None:
    created, lineage = run_records("ThreadCreated", "SubagentLineageRecorded")
    assert failures(stored_log(batch("batch-1", created), batch("batch-2", lineage))) == {}
    late = failures(stored_log(batch("batch-1", note("n")), batch("batch-2", created)))
    assert set(late) == {CONTINUATION}
    assert late[CONTINUATION].startswith("sequence 2: ")
    joined, settled = run_records("SubagentJoined", "ToolCallSettled")
    assert failures(stored_log(batch("batch-1", settled, joined))) == {}
    alone = failures(stored_log(batch("batch-1", settled), batch("batch-2", joined)))
    assert set(alone) == {SCHEMA}
    assert alone[SCHEMA].startswith("sequence 2: ")


@pytest.mark.rule("ARC-3")
def test_a_second_end_of_a_run_or_a_submission_is_found() -> None:
    completed, failed, settled = run_records("RunCompleted", "RunFailed", "SubmissionSettled")
    other = record("other", sample_payload("RunCompleted", Subject(run=RunId("run:other"))))
    assert failures(stored_log(batch("b", completed, settled, other))) == {}
    ends = stored_log(batch("batch-1", completed, note("n")), batch("batch-2", failed))
    assert set(failures(ends)) == {TERMINAL}
    assert failures(ends)[TERMINAL].startswith("sequence 3: ")
    twice = stored_log(batch("batch-1", settled), batch("batch-2", record("x", settled.payload)))
    assert failures(twice)[TERMINAL].startswith("sequence 2: ")


@pytest.mark.rule("ARC-3", "ARC-4")
def test_a_retained_record_must_stand_where_it_is_said_to() -> None:
    context = record("context", sample_payload("RunContextRecorded"))
    filler = notes("record", 6)
    right = stored_log(batch("batch-1", *filler), batch("batch-2", context))
    assert failures(right) == {}
    elsewhere = stored_log(batch("batch-1", note("first"), *filler), batch("batch-2", context))
    assert failures(elsewhere) == {
        CONTINUATION: "sequence 2: a run retains a record that is not here"
    }
    missing = stored_log(batch("batch-1", *filler[:4], *notes("x", 2)), batch("batch-2", context))
    assert failures(missing)[CONTINUATION].startswith("sequence 5: ")
    ahead = stored_log(batch("batch-1", *filler[:4], context, *filler[4:]))
    assert failures(ahead)[CONTINUATION].startswith("sequence 5: ")


# --- Obligations ---------------------------------------------------------------------------------


def obligation(*records: Record) -> str | None:
    with LogVerifier(THREAD) as verifier:
        for each in stored_log(*(batch(f"b-{one.record_id}", one) for one in records)):
            verifier.feed(each)
        return verifier.obligation()


@pytest.mark.rule("ARC-4")
def test_an_open_handoff_is_an_obligation() -> None:
    prepared = record("record-27", sample_payload("PeerMessagePrepared"))
    closed = record("closed", sample_payload("WorkHandoffCompleted"))
    assert obligation() is None
    assert "record-27" in (obligation(prepared) or "")
    assert obligation(prepared, closed) is None


@pytest.mark.rule("ARC-4")
@pytest.mark.parametrize(
    "end", ["SubagentJoined", "RunCompleted", "RunFailed", "SubmissionSettled"]
)
def test_an_open_child_is_an_obligation_until_it_joins_or_its_run_ends(end: str) -> None:
    requested, started, ended = run_records("SubagentRequested", "SubagentStarted", end)
    assert RUN.run in (obligation(requested) or "")
    assert RUN.run in (obligation(requested, started) or "")
    assert obligation(requested, started, ended) is None
    other = record(
        "other", sample_payload("SubagentRequested", replace(RUN, call=ToolCallId("call-2")))
    )
    left = obligation(requested, other, ended)
    assert (left is None) == (end != "SubagentJoined")
