"""One admission, retried by a client that never hears the answer, stays one submission (LED-1).

The short form runs with every other test, the million with `uv run pytest -m long tests/long`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import AdmissionConflict
from yielded_core.storage import open_storage
from yielded_testing.suites.ledger_values import work

if TYPE_CHECKING:
    from pathlib import Path

    from yielded_core.ports.work import Admitted
    from yielded_core.storage import Storage

TASKS: Final = 64
SESSIONS: Final = 4
"""The store is closed and opened again this often; memory keeps one session."""
MILLION: Final = (pytest.mark.long, pytest.mark.timeout(3_600))
RETRIES: Final = (
    pytest.param(2_048, id="short"),
    pytest.param(1_000_000, id="million", marks=MILLION),
)


async def retry(storage: Storage, count: int) -> Counter[Admitted]:
    """Admit the same work again and again, from many tasks at once."""
    answers: Counter[Admitted] = Counter()

    async def client(own: int) -> None:
        for _ in range(own):
            answers[await storage.ledger.admit(work("key-1"))] += 1

    shares = [count // TASKS + (task < count % TASKS) for task in range(TASKS)]
    async with asyncio.TaskGroup() as clients:
        for share in shares:
            clients.create_task(client(share))
    return answers


@pytest.mark.rule("LED-1")
@pytest.mark.parametrize("count", RETRIES)
@pytest.mark.parametrize("adapter", ["memory", "sqlite"])
async def test_a_retried_admission_stays_one_submission(
    tmp_path: Path, adapter: str, count: int
) -> None:
    file = tmp_path / "store.db"
    url, sessions = ("memory://", 1) if adapter == "memory" else (f"sqlite:///{file}", SESSIONS)
    answers: Counter[Admitted] = Counter()
    sizes: list[int] = []
    for session in range(sessions):
        async with open_storage(url) as storage:
            answers += await retry(storage, count // sessions)
            if session == sessions - 1:
                await _check_one_is_there(storage, answers)
        sizes.append(file.stat().st_size if adapter == "sqlite" else 0)
    assert answers.total() == count
    assert len(set(sizes[:-1])) <= 1, "retries made the file grow"


async def _check_one_is_there(storage: Storage, answers: Counter[Admitted]) -> None:
    """One new answer, one receipt; other content conflicts, the next work gets the next place."""
    (first,) = [each for each in answers if not each.replayed]
    assert (len(answers), answers[first]) == (2, 1)
    receipts = {(each.submission_id, each.receipt_id, each.queue_sequence) for each in answers}
    assert receipts == {(first.submission_id, first.receipt_id, 1)}
    (owed,) = await storage.ledger.scan_nonterminal()
    assert owed.submission_id == first.submission_id
    with pytest.raises(AdmissionConflict) as refused:
        await storage.ledger.admit(work("key-1", "another input"))
    assert refused.value.existing == owed.admission_digest
    assert refused.value.attempted != owed.admission_digest
    assert (await storage.ledger.admit(work("key-2"))).queue_sequence == 2
