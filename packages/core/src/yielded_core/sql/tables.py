"""The tables of layout 21 as SQLAlchemy names them in statements; `layout_21.sql` defines them."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, LargeBinary, MetaData, Table, Text

metadata: Final = MetaData()


def _table(name: str, **columns: type[BigInteger | LargeBinary | Text]) -> Table:
    return Table(name, metadata, *(Column(column, kind) for column, kind in columns.items()))


header: Final = _table(
    "yielded_header",
    singleton=BigInteger,
    layout_version=BigInteger,
    record_format=Text,
    options=Text,
    incarnation=Text,
    created_at=BigInteger,
    epoch_floor=BigInteger,
)
threads: Final = _table(
    "yielded_threads",
    thread_id=Text,
    generation=BigInteger,
    epoch=BigInteger,
    tail_sequence=BigInteger,
    tail_digest=LargeBinary,
    indexed_through=BigInteger,
    fact_revision=BigInteger,
)
tombstones: Final = _table(
    "yielded_tombstones",
    thread_id=Text,
    epoch=BigInteger,
    tail_sequence=BigInteger,
    tail_digest=LargeBinary,
    deleted_at=BigInteger,
)
imports: Final = _table(
    "yielded_imports",
    thread_id=Text,
    generation=BigInteger,
    epoch=BigInteger,
    tail_sequence=BigInteger,
    tail_digest=LargeBinary,
    staged_through=BigInteger,
    staged_digest=LargeBinary,
)
batches: Final = _table(
    "yielded_batches",
    thread_id=Text,
    generation=BigInteger,
    last_sequence=BigInteger,
    first_sequence=BigInteger,
    batch_id=Text,
    producer_id=Text,
    epoch=BigInteger,
    content_digest=LargeBinary,
    tail_digest=LargeBinary,
    epoch_seal=LargeBinary,
)
records: Final = _table(
    "yielded_records",
    thread_id=Text,
    generation=BigInteger,
    sequence=BigInteger,
    record_id=Text,
    wire=LargeBinary,
)
ranges: Final = _table(
    "yielded_ranges",
    thread_id=Text,
    generation=BigInteger,
    first_sequence=BigInteger,
    last_sequence=BigInteger,
    state=Text,
    record_count=BigInteger,
    byte_count=BigInteger,
)
archived_chunks: Final = _table(
    "yielded_archived_chunks",
    thread_id=Text,
    generation=BigInteger,
    last_sequence=BigInteger,
    first_sequence=BigInteger,
    content=LargeBinary,
)
archived_records: Final = _table(
    "yielded_archived_records",
    thread_id=Text,
    generation=BigInteger,
    record_id=Text,
    sequence=BigInteger,
)
run_facts: Final = _table(
    "yielded_run_facts",
    thread_id=Text,
    generation=BigInteger,
    run_id=Text,
    sequence=BigInteger,
)
operation_facts: Final = _table(
    "yielded_operation_facts",
    thread_id=Text,
    generation=BigInteger,
    run_id=Text,
    tool_call_id=Text,
    sequence=BigInteger,
)
prompt_facts: Final = _table(
    "yielded_prompt_facts", thread_id=Text, generation=BigInteger, sequence=BigInteger
)
continuations: Final = _table(
    "yielded_continuations",
    thread_id=Text,
    generation=BigInteger,
    run_id=Text,
    sequence=BigInteger,
    revision=BigInteger,
)
run_inputs: Final = _table(
    "yielded_run_inputs",
    thread_id=Text,
    generation=BigInteger,
    run_id=Text,
    sequence=BigInteger,
)
run_progress: Final = _table(
    "yielded_run_progress",
    thread_id=Text,
    generation=BigInteger,
    run_id=Text,
    state=LargeBinary,
)
handoffs: Final = _table(
    "yielded_handoffs",
    thread_id=Text,
    generation=BigInteger,
    record_id=Text,
    sequence=BigInteger,
)
checkpoints: Final = _table(
    "yielded_checkpoints",
    thread_id=Text,
    generation=BigInteger,
    through_sequence=BigInteger,
    schema_version=BigInteger,
    tail_digest=LargeBinary,
    state=LargeBinary,
    created_at=Text,
)
