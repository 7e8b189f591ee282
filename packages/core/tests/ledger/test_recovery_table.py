"""Each row of the recovery classifier, decided once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from recovery_samples import (
    BATCH,
    HOST,
    SEQUENCE,
    A,
    B,
    child_of,
    decided,
    delegating,
    reserved,
    resolved,
    snapshot,
)

from yielded_core.ledger import recovery_decisions as decisions
from yielded_core.ledger.recovery import RECOVERY, classify, deciding_row
from yielded_core.ledger.recovery_evidence import CanonicalFacts
from yielded_core.ports.work import Suspension

if TYPE_CHECKING:
    from yielded_core.ledger.recovery_decisions import RecoveryDecision
    from yielded_core.ports.work import RecoverySnapshot

NO_FACTS = CanonicalFacts()
FOR_A = Suspension(approvals=(A,))
FOR_BOTH = Suspension(children=(child_of(A), child_of(B)))


class Case(NamedTuple):
    rule: str
    situation: str
    snapshot: RecoverySnapshot
    facts: CanonicalFacts
    decision: RecoveryDecision


LINK = decisions.MissingLink(A, child_of(A), record=True, attachment=True)

CASES = (
    Case("RCV-1", "settled", snapshot("settled"), NO_FACTS, decisions.NothingToDo()),
    Case(
        "RCV-2",
        "the settlement record is in the log",
        snapshot(settlement=True),
        NO_FACTS,
        decisions.FinalizeFromHistory(),
    ),
    Case(
        "RCV-3",
        "joining, the input is in the log",
        snapshot("joining", marker=None, host=HOST),
        NO_FACTS,
        decisions.RepairJoinMarker(SEQUENCE),
    ),
    Case(
        "RCV-3",
        "joining",
        snapshot("joining", new=True, host=HOST),
        NO_FACTS,
        decisions.RevertJoining(HOST),
    ),
    Case(
        "RCV-3",
        "joined, the host's settlement record is in the log",
        snapshot("joined", host=HOST, host_settlement=True),
        NO_FACTS,
        decisions.SettleWithHost(HOST),
    ),
    Case("RCV-3", "joined", snapshot("joined", host=HOST), NO_FACTS, decisions.AwaitHost(HOST)),
    Case(
        "RCV-4",
        "abort asked for, whether a child was admitted is not known",
        *delegating("unanswered", aborted=True),
        decisions.AwaitChildAdmission((A,)),
    ),
    Case(
        "RCV-4",
        "abort asked for, a child exists that the parent does not name",
        *delegating("unlinked", aborted=True),
        decisions.RepairStartLink((LINK,)),
    ),
    Case(
        "RCV-4",
        "abort asked for, a child is open",
        *delegating("running", "running", aborted=True),
        decisions.PropagateAbort((child_of(A), child_of(B))),
    ),
    Case(
        "RCV-4",
        "abort asked for, a settled child is not joined",
        *delegating("finished", aborted=True),
        decisions.ResumeToJoinChildren((child_of(A),)),
    ),
    Case(
        "RCV-4",
        "abort asked for, a joined child's reservation is held",
        *delegating("accounting", aborted=True),
        decisions.ApplyJoinAccounting((reserved(A, "attached"),)),
    ),
    Case(
        "RCV-4",
        "abort asked for, a reservation without a child is held",
        *delegating("declared", "admissible", aborted=True),
        decisions.ReleaseOrphanReservation((reserved(A), reserved(B))),
    ),
    Case(
        "RCV-4",
        "abort asked for, the thread is not materialized",
        snapshot("admitted", aborted=True, epoch=0, new=True),
        NO_FACTS,
        decisions.CompleteMaterialization(),
    ),
    Case(
        "RCV-4",
        "abort asked for",
        snapshot(aborted=True),
        NO_FACTS,
        decisions.SettleAborted("owned"),
    ),
    Case(
        "RCV-5",
        "an ordinary call is open and not unknown",
        snapshot(unknown=(A,), resolutions=(resolved(A),)),
        CanonicalFacts(open_calls=(A, B), batch=BATCH),
        decisions.MarkCallsUnknown((B,)),
    ),
    Case(
        "RCV-6",
        "unknown, every open call is resolved",
        snapshot("unknown", unknown=(A, B), resolutions=(resolved(A),)),
        CanonicalFacts(open_calls=(A,), closed_calls=frozenset((B,)), batch=BATCH),
        decisions.ApplyResolutions((resolved(A),), (B,)),
    ),
    Case(
        "RCV-6",
        "unknown",
        snapshot("unknown", unknown=(A, B), resolutions=(resolved(A),)),
        CanonicalFacts(open_calls=(A, B), batch=BATCH),
        decisions.AwaitResolutions((B,)),
    ),
    Case(
        "RCV-7",
        "suspended for children, all of them are settled",
        snapshot("suspended", waits_for=FOR_BOTH, published=FOR_BOTH.children),
        NO_FACTS,
        decisions.ResumeToJoinChildren(FOR_BOTH.children),
    ),
    Case(
        "RCV-7",
        "suspended for children",
        snapshot("suspended", waits_for=FOR_BOTH, published=(child_of(A),)),
        NO_FACTS,
        decisions.AwaitChildren((child_of(B),)),
    ),
    Case(
        "RCV-7",
        "an approval is pending",
        snapshot("suspended", waits_for=FOR_A),
        CanonicalFacts(approvals=(A,), batch=BATCH),
        decisions.AwaitApproval((A,)),
    ),
    Case(
        "RCV-7",
        "suspended",
        snapshot("suspended", waits_for=FOR_A),
        CanonicalFacts(approvals=(A,), decisions=(decided(A),), batch=BATCH),
        decisions.ResumeSuspended((decided(A),)),
    ),
    Case(
        "RCV-8",
        "a joined child's reservation is held",
        *delegating("accounting"),
        decisions.ApplyJoinAccounting((reserved(A, "attached"),)),
    ),
    Case(
        "RCV-8",
        "a requested child is proven not to be admitted",
        *delegating("admissible"),
        decisions.CompleteChildAdmission((A,)),
    ),
    Case(
        "RCV-8",
        "a child exists that the parent does not name",
        *delegating("unlinked"),
        decisions.RepairStartLink((LINK,)),
    ),
    Case(
        "RCV-8",
        "whether a child was admitted is not known",
        *delegating("unanswered"),
        decisions.AwaitChildAdmission((A,)),
    ),
    Case(
        "RCV-8",
        "a delegation was declared and nothing requested",
        *delegating("declared"),
        decisions.ResumeBatch(3),
    ),
    Case(
        "RCV-8",
        "a child is open",
        *delegating("finished", "running"),
        decisions.EnsureSuspension((child_of(A), child_of(B))),
    ),
    Case(
        "RCV-8",
        "a settled child is not joined",
        *delegating("finished"),
        decisions.ResumeToJoinChildren((child_of(A),)),
    ),
    Case(
        "RCV-8",
        "a reservation without a child is held",
        *delegating("orphaned"),
        decisions.ReleaseOrphanReservation((reserved(A),)),
    ),
    Case(
        "RCV-9",
        "a declared batch is unfinished",
        snapshot(),
        CanonicalFacts(batch=BATCH),
        decisions.ResumeBatch(3),
    ),
    Case(
        "RCV-10",
        "admitted, a child of which the lineage is not recorded",
        snapshot("admitted", new=True),
        CanonicalFacts(awaits_lineage=True),
        decisions.AwaitParentLineage(),
    ),
    Case(
        "RCV-10",
        "admitted, the thread is materialized",
        snapshot("admitted", new=True),
        NO_FACTS,
        decisions.RepairReadiness(),
    ),
    Case(
        "RCV-10",
        "admitted",
        snapshot("admitted", epoch=0, new=True),
        NO_FACTS,
        decisions.CompleteMaterialization(),
    ),
    Case(
        "RCV-11",
        "the input is not in the log",
        snapshot("running", new=True),
        NO_FACTS,
        decisions.ApplyInput(),
    ),
    Case(
        "RCV-11",
        "the input is not marked where the log holds it",
        snapshot("running", marker=None),
        NO_FACTS,
        decisions.RepairInputMarker(SEQUENCE),
    ),
    Case("RCV-11", "nothing else", snapshot(), NO_FACTS, decisions.ResumeFromBoundary()),
)


def test_there_is_one_case_for_each_row_in_the_order_of_the_table() -> None:
    assert [case[:2] for case in CASES] == [(row.rule, row.situation) for row in RECOVERY]


def test_the_rules_come_in_the_order_of_the_contract() -> None:
    rules = list(dict.fromkeys(row.rule for row in RECOVERY))
    assert rules == [f"RCV-{number}" for number in range(1, 12)]
    assert [row.rule for row in RECOVERY] == [
        rule for rule in rules for row in RECOVERY if row.rule == rule
    ]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.rule(case.rule), id=f"{case.rule} {case.situation}")
        for case in CASES
    ],
)
def test_a_row_decides(case: Case) -> None:
    assert classify(case.snapshot, case.facts) == case.decision
    row = deciding_row(case.snapshot, case.facts)
    assert (row.rule, row.situation) == (case.rule, case.situation)
    assert row.decision is type(case.decision)
