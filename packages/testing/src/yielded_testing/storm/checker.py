"""Checks a ledger by other means than the adapter's: what processes said, against what is stored.

Nothing here asks the rules of the ledger. What is wrong comes back as complaints, none of which
stops the others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from yielded_testing.storm.log_checker import EMPTY_DIGEST
from yielded_testing.storm.story import Story, batch_of, read_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yielded_testing.storm.log_checker import Query
    from yielded_testing.storm.story import Entry, Life, Store


class Complaint(NamedTuple):
    """Something that must not be, by a word for its kind."""

    kind: str
    detail: str


class Counts(NamedTuple):
    """What happened how often."""

    kills: int
    submissions: int
    repeated_admissions: int
    settlements: int
    queued_aborts: int
    grants: int
    takeovers: int
    """Claims of work whose owner had been killed while its lease was live."""
    stale_appends: int
    """Refused appends under an epoch that was known to be superseded."""
    stale_publications: int
    lost_answers: int
    """Operations that were cut off by the end of the server, and asked again."""
    lost_after_commit: int
    """Appends among them that were found committed when they were asked again."""

    def __str__(self) -> str:
        return ", ".join(
            f"{number} {name.replace('_', ' ')}" for name, number in self._asdict().items()
        )


class Findings(NamedTuple):
    """What a check found."""

    complaints: list[Complaint]
    counts: Counts


def check_ledger(query: Query, lives: list[Life]) -> Findings:
    """Compare what processes said with a store to which nobody writes, and which owes nothing."""
    store, story = read_store(query), Story(lives)
    checks = (
        _check_admissions,
        _check_settlements,
        _check_answered_settlements,
        _check_answered_appends,
        _check_epochs,
        _check_fences,
        _check_producers,
        _check_order,
        _check_aborts,
        _check_stale,
        _check_leases,
    )
    complaints = [complaint for check in checks for complaint in check(store, story)]
    return Findings(complaints, _count(store, story, lives))


# --- accepted work -------------------------------------------------------------------------------


def _check_admissions(store: Store, story: Story) -> Iterator[Complaint]:
    """What was accepted is there once, as it was said, and nothing else is."""
    for said in story.done["admit"]:
        row = store.rows.get(said["submission"])
        told = tuple(said[name] for name in ("lane", "place", "submission", "receipt", "key"))
        if row is None:
            yield Complaint("lost", f"{said['key']} was accepted as {said['submission']}")
        elif row[:5] != told:
            yield Complaint("admission", f"{told} is stored as {row[:5]}")
    keys = Counter((row.lane, row.key) for row in store.rows.values())
    yield from (Complaint("doubled", f"{key}") for key, count in keys.items() if count > 1)
    offered = {(said["lane"], said["key"]) for said in story.begun["admit"]}
    yield from (Complaint("unasked", f"{key}") for key in keys if key not in offered)
    places: dict[str, list[int]] = defaultdict(list)
    for row in store.rows.values():
        places[row.lane].append(row.place)
    for lane, found in places.items():
        if found != list(range(1, len(found) + 1)):
            yield Complaint("queue", f"the places of {lane} are {found}")


# --- settlements ---------------------------------------------------------------------------------


def _check_settlements(store: Store, _story: Story) -> Iterator[Complaint]:
    """Each submission is settled, by exactly one record that agrees with its row."""
    records = store.settlements()
    for submission in records.keys() - store.rows.keys():
        yield Complaint("lost", f"{submission} has a settlement record")
    for row in store.rows.values():
        found = records.get(row.submission, [])
        if row.state != "settled":
            yield Complaint("unsettled", f"{row.submission} is {row.state}")
        if len(found) > 1:
            yield Complaint("second settlement", f"{row.submission} has {len(found)}")
        elif not found:
            yield Complaint("no settlement", row.submission)
        elif row.state == "settled":
            payload = found[0].payload
            written = (payload["settlementId"], payload["receiptId"], payload["outcome"])
            if written != (row.settlement, row.receipt, row.outcome):
                yield Complaint("settlement", f"{row} was published as {written}")


def _check_answered_settlements(store: Store, story: Story) -> Iterator[Complaint]:
    """Acknowledged settlements are stored, by whom and as what they were acknowledged."""
    records = store.settlements()
    for said in story.done["publish"]:
        told = (said["sequence"], said["attempt"], said["outcome"])
        stored = [
            (entry.sequence, entry.producer, entry.payload["outcome"])
            for entry in records.get(said["submission"], [])
        ]
        if told not in stored:
            yield Complaint("publication", f"{said} is stored as {stored}")
    for said in story.done["finalize"]:
        row = store.rows.get(said["submission"])
        if row is None:
            yield Complaint("lost", f"{said['submission']} was settled")
        elif (row.outcome, row.settled_at) != (said["outcome"], said["at"]):
            yield Complaint("settlement", f"{said} is stored as {row}")


def _check_answered_appends(store: Store, story: Story) -> Iterator[Complaint]:
    """Acknowledged batches and markers are stored where it was said."""
    for said in story.done["append"]:
        held = store.batches.get(said["lane"], {}).get(said["batch"])
        if held is None or held[1:4] != (said["first"], said["last"], said["digest"]):
            yield Complaint("append", f"{said} is stored as {held}")
    inputs = {name: entries[0].sequence for name, entries in store.inputs().items()}
    for row in store.rows.values():
        if row.input_at not in {None, inputs.get(row.submission)}:
            yield Complaint("marker", f"{row} is not where its input is")
    for said in story.done["mark"]:
        row = store.rows.get(said["submission"])
        if row is None:
            yield Complaint("lost", f"{said['submission']} had its input marked")
        elif row.input_at != said["sequence"]:
            yield Complaint("marker", f"{said} is stored as {row}")


# --- epochs --------------------------------------------------------------------------------------


def _check_epochs(store: Store, story: Story) -> Iterator[Complaint]:
    """No epoch was granted twice, and each that was is the answer to a claim."""
    claims = Counter(said["lane"] for said in story.begun["claim"])
    answers = Counter(said["lane"] for said in story.done["claim"])
    for lane, epoch in store.lanes.items():
        granted = [int(grant.said["epoch"]) for grant in story.grants[lane]]
        for each, count in Counter(granted).items():
            if count > 1:
                yield Complaint("epoch granted twice", f"{each} of {lane}")
        beyond = [each for each in granted if not 2 <= each <= epoch]
        unheard = epoch - 1 - len(set(granted))
        if beyond or unheard > claims[lane] - answers[lane]:
            yield Complaint("epoch", f"{lane} is at {epoch}, granted were {granted}")
    for said in story.repeated:
        if said["epoch"] not in story.epochs_of[said["attempt"]]:
            yield Complaint("epoch", f"{said} repeats no grant")


def _check_fences(store: Store, story: Story) -> Iterator[Complaint]:
    """After the tail of a grant no batch has a lower epoch, before it none has as high a one."""
    stored = _batch_rows(store)
    for lane, epoch in store.lanes.items():
        batches = stored.get(lane, [])
        for before, after in pairwise(batches):
            if after.epoch < before.epoch:
                detail = f"{after.batch} of {lane} has {after.epoch} after {before.epoch}"
                yield Complaint("lower epoch", detail)
        ends = [0, *(entry.sequence for entry in batches)]
        epochs = [entry.epoch for entry in batches]
        highest_before = [0, *accumulate(epochs, max)]
        lowest_after = [*accumulate(reversed(epochs), min, initial=epoch + 1)][::-1]
        for said in (grant.said for grant in story.grants[lane]):
            at = bisect_right(ends, said["tail"]) - 1
            digest = store.batches[lane][batches[at - 1].batch].digest if at else EMPTY_DIGEST
            if (ends[at], digest) != (said["tail"], said["digest"]):
                yield Complaint("tail", f"{said} was granted at no tail of its lane")
            if highest_before[at] >= said["epoch"]:
                yield Complaint("early epoch", f"{highest_before[at]} before {said}")
            if lowest_after[at] < said["epoch"]:
                yield Complaint("lower epoch", f"{lowest_after[at]} after {said}")


def _batch_rows(store: Store) -> dict[str, list[Entry]]:
    """Return the last record of each batch of each lane."""
    return {
        lane: [
            entry
            for entry, after in zip(entries, [*entries[1:], None], strict=True)
            if after is None or after.batch != entry.batch
        ]
        for lane, entries in store.entries.items()
    }


def _check_producers(store: Store, story: Story) -> Iterator[Complaint]:
    """Each batch was begun by its producer, which was granted its epoch unless it owned nothing."""
    begun = {batch_of("append", said) for said in story.begun["append"]}
    in_queue: set[tuple[str, str, str]] = set()
    for said in story.begun["publish"]:
        batch = batch_of("publish", said)
        begun.add(batch)
        if said["authority"] == "queued-abort":
            in_queue.add(batch)
    for lane, batches in _batch_rows(store).items():
        for entry in batches:
            batch = (lane, entry.batch, entry.producer)
            if batch not in begun:
                yield Complaint("unasked", f"{batch}")
            if batch not in in_queue and entry.epoch not in story.epochs_of[entry.producer]:
                yield Complaint("producer", f"{entry.producer} had no grant of {entry.epoch}")


# --- order ---------------------------------------------------------------------------------------


def _check_order(store: Store, story: Story) -> Iterator[Complaint]:
    """Work that ran was begun and settled in the order of its lane, one after the other."""
    inputs, settlements = store.inputs(), store.settlements()
    for name, entries in inputs.items():
        if len(entries) > 1:
            yield Complaint("second input", f"{name} has {len(entries)}")
    ran = inputs.keys() | _settled_by_owners(store, story)
    events: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for name in ran & store.rows.keys():
        row = store.rows[name]
        for entry in (*inputs.get(name, [])[:1], *settlements.get(name, [])[:1]):
            events[row.lane].append((entry.sequence, row.place))
    for lane, found in events.items():
        places = [place for _, place in sorted(found)]
        if places != sorted(places):
            yield Complaint("order", f"{lane} has inputs and settlements of {places}")
    for lane, grants in story.grants.items():
        places = [int(grant.said["place"]) for grant in grants]
        if places != sorted(places):
            yield Complaint("order", f"{lane} was granted for {places}")


def _settled_by_owners(store: Store, story: Story) -> set[str]:
    """Return what was settled by an attempt that owned it."""
    return {
        name
        for name, entries in store.settlements().items()
        if (name, entries[0].producer) in story.owners
    }


def _check_aborts(store: Store, story: Story) -> Iterator[Complaint]:
    """What nobody who owned it settled was asked to be aborted, and never ran."""
    owned, ran = _settled_by_owners(store, story), store.inputs().keys()
    in_queue = {
        name: entries[0].sequence
        for name, entries in store.settlements().items()
        if name not in owned
    }
    for row in store.rows.values():
        if row.outcome == "aborted" and row.abort_at is None:
            yield Complaint("abort", f"nobody asked for that of {row}")
        if row.submission in in_queue and (row.outcome != "aborted" or row.submission in ran):
            yield Complaint("abort", f"{row} was settled in the queue")
    for said in (grant.said for grant in story.all_grants()):
        if said["tail"] < in_queue.get(said["submission"], 0):
            yield Complaint("abort", f"{said} was settled as if it had never run")


# --- who may write -------------------------------------------------------------------------------


def _check_stale(store: Store, story: Story) -> Iterator[Complaint]:
    """Whoever acted under a lost right was refused, for that reason, and left nothing."""
    reasons = {"append": "fence-rejected", "publish": "ownership-lost", "renew": "ownership-lost"}
    for operation, reason in reasons.items():
        for said in story.done[operation]:
            if said["stale"]:
                yield Complaint("stale", f"{said} was not refused")
        for said in story.refused[operation]:
            if said["stale"] and said["code"] != reason:
                yield Complaint("stale", f"{said} was refused for another reason")
    held = _stored(store)
    for operation in ("append", "publish"):
        lost = story.lost_batches(operation)
        for said in (*story.begun[operation], *story.refused[operation]):
            batch = batch_of(operation, said)
            refused = "refused" in said and batch not in lost
            if (said["stale"] or refused) and batch in held:
                yield Complaint("stale", f"{said} left something")


def _stored(store: Store) -> set[tuple[str, str, str]]:
    """Return the lane, the name and the producer of each batch."""
    return {
        (lane, entry.batch, entry.producer)
        for lane, batches in _batch_rows(store).items()
        for entry in batches
    }


def _check_leases(_store: Store, story: Story) -> Iterator[Complaint]:
    """Nobody was granted work while the lease of its owner was live."""
    for grants in story.grants.values():
        for before, after in pairwise(grants):
            same = before.said["submission"] == after.said["submission"]
            distinct = before.said["epoch"] < after.said["epoch"]
            if same and distinct and not before.released and after.granted_at < before.until:
                yield Complaint("lease", f"{after.said} came before {before.until}")


def _count(store: Store, story: Story, lives: list[Life]) -> Counts:
    takeovers = 0
    for grants in story.grants.values():
        for before, after in pairwise(grants):
            died = before.life.killed_at
            if (
                died is not None
                and before.until > died
                and not before.released
                and before.said["submission"] == after.said["submission"]
            ):
                takeovers += 1
    lost = story.lost_batches("append")
    found = [said for said in story.done["append"] if batch_of("append", said) in lost]
    return Counts(
        sum(life.killed_at is not None for life in lives),
        len(store.rows),
        sum(bool(said["replayed"]) for said in story.done["admit"]),
        sum(row.state == "settled" for row in store.rows.values()),
        len(store.rows) - len(_settled_by_owners(store, story)),
        sum(len(grants) for grants in story.grants.values()),
        takeovers,
        sum(bool(said["stale"]) for said in story.refused["append"]),
        sum(bool(said["stale"]) for said in story.refused["publish"]),
        sum(len(said) for said in story.lost.values()),
        sum(bool(said["replayed"]) for said in found),
    )
