"""What a JavaScript program computed, computed here: a log can be verified in another language."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import subprocess
from pathlib import Path
from typing import TypedDict, cast

import pytest

from yielded_core.digest import EMPTY_TAIL_DIGEST, batch_content, chain_digest, content_digest
from yielded_core.errors import InvalidJson
from yielded_core.records import payloads as p
from yielded_core.records.bounded_json import ecmascript_number, parse_json
from yielded_core.records.canonical import canonical_json, json_digest
from yielded_core.records.envelope import Record, encode_record, encoded_from_wire
from yielded_core.records.identifiers import BatchId, Digest, ProducerId

HERE = Path(__file__).parent
GENERATOR = HERE / "generate.js"
FILE = HERE / "vectors.json"
FILE_DIGEST = "77705b8ac66e7d4d88fdd16efb2b25a42a1b759abdd41c61ac55c6392b99f623"
"""Of `vectors.json`, which nothing but `generate.js` writes."""


class Number(TypedDict):
    json: str
    canonical: str


class Integer(TypedDict):
    json: str
    exact: bool


class Value(TypedDict):
    name: str
    json: str
    canonical: str
    sha256: str


class RecordVector(TypedDict):
    json: str
    canonical: str
    sha256: str


class Batch(TypedDict):
    batchId: str
    producerId: str
    records: list[RecordVector]
    contentDigest: str
    tailDigest: str


class Vectors(TypedDict):
    numbers: list[Number]
    integers: list[Integer]
    doubles: list[tuple[str, str]]
    values: list[Value]
    thread: list[Batch]


VECTORS = cast("Vectors", json.loads(FILE.read_bytes()))


@pytest.mark.rule("REC-7")
def test_the_vectors_are_what_the_generator_writes() -> None:
    """Where Node.js is on the machine it runs again; the recorded digest is compared anyway."""
    assert hashlib.sha256(FILE.read_bytes()).hexdigest() == FILE_DIGEST
    node = shutil.which("node")
    if node is not None:
        again = subprocess.run([node, GENERATOR], capture_output=True, check=True, timeout=60)
        assert again.stdout == FILE.read_bytes()


@pytest.mark.rule("REC-4", "REC-7")
@pytest.mark.parametrize("vector", VECTORS["numbers"], ids=lambda vector: vector["json"])
def test_numbers(vector: Number) -> None:
    assert canonical_json(parse_json(vector["json"])).decode() == vector["canonical"]


@pytest.mark.rule("REC-3", "REC-7")
@pytest.mark.parametrize("vector", VECTORS["integers"], ids=lambda vector: vector["json"][:24])
def test_an_integer_is_accepted_exactly_where_its_text_reads_back(vector: Integer) -> None:
    if vector["exact"]:
        assert parse_json(vector["json"]) == int(vector["json"])
        assert int(float(canonical_json(int(vector["json"])))) == int(float(vector["json"]))
    else:
        with pytest.raises(InvalidJson):
            parse_json(vector["json"])
        with pytest.raises(InvalidJson):
            canonical_json(int(vector["json"]))


@pytest.mark.rule("REC-4", "REC-7")
def test_doubles_of_every_size() -> None:
    for bits, text in VECTORS["doubles"]:
        number: float = struct.unpack(">d", bytes.fromhex(bits))[0]
        assert ecmascript_number(number) == text
        assert canonical_json([number]).decode() == f"[{text}]"


@pytest.mark.rule("REC-4", "REC-7")
@pytest.mark.parametrize("vector", VECTORS["values"], ids=lambda vector: vector["name"])
def test_values(vector: Value) -> None:
    value = parse_json(vector["json"])
    assert canonical_json(value).decode() == vector["canonical"]
    assert json_digest(value) == vector["sha256"]


RECORDS = [record for batch in VECTORS["thread"] for record in batch["records"]]


@pytest.mark.rule("REC-4", "REC-7")
@pytest.mark.parametrize("vector", RECORDS, ids=range(1, len(RECORDS) + 1))
def test_records(vector: RecordVector) -> None:
    wire = vector["canonical"].encode()
    encoded = encoded_from_wire(wire)
    assert encoded.digest == vector["sha256"]
    assert canonical_json(parse_json(vector["json"])) == wire
    assert encode_record(encoded.record) == encoded


@pytest.mark.rule("REC-7")
def test_the_chain_of_three_batches() -> None:
    tail = EMPTY_TAIL_DIGEST
    assert tail == "0" * 64
    for batch in VECTORS["thread"]:
        wires = [record["canonical"].encode() for record in batch["records"]]
        content = batch_content(BatchId(batch["batchId"]), ProducerId(batch["producerId"]), wires)
        assert content_digest(content) == batch["contentDigest"]
        tail = chain_digest(tail, content)
        assert tail == batch["tailDigest"]
    assert len(VECTORS["thread"]) == 3


@pytest.mark.rule("REC-7")
def test_any_change_of_a_batch_changes_the_tail() -> None:
    batch, producer, wire = BatchId("b"), ProducerId("p"), b'{"a":1}'
    tails = {
        chain_digest(EMPTY_TAIL_DIGEST, batch_content(batch, producer, [wire])),
        chain_digest(Digest("1" * 64), batch_content(batch, producer, [wire])),
        chain_digest(EMPTY_TAIL_DIGEST, batch_content(BatchId("c"), producer, [wire])),
        chain_digest(EMPTY_TAIL_DIGEST, batch_content(batch, ProducerId("q"), [wire])),
        chain_digest(EMPTY_TAIL_DIGEST, batch_content(batch, producer, [wire, wire])),
        chain_digest(EMPTY_TAIL_DIGEST, batch_content(batch, producer, [b'{"a":2}'])),
        content_digest(batch_content(batch, producer, [wire])),
    }
    assert len(tails) == 7


@pytest.mark.rule("REC-7")
def test_evidence_references_are_the_digests_of_the_records_they_name() -> None:
    digests: dict[str, str] = {}
    for vector in RECORDS[:-1]:
        record = _record(vector)
        digests[record.record_id] = hashlib.sha256(vector["canonical"].encode()).hexdigest()
    continuation = _record(RECORDS[-1]).payload
    assert isinstance(continuation, p.RunContinuation)
    references = (
        continuation.original_input,
        continuation.latest_response,
        continuation.last_fact,
    )
    for reference in references:
        assert reference is not None
        assert digests[reference.record_id] == reference.digest


def _record(vector: RecordVector) -> Record:
    return encoded_from_wire(vector["canonical"].encode()).record
