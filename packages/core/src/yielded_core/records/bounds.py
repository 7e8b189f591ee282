"""The bounds of contract 1, each named once. Units are in the names or beside them."""

from __future__ import annotations

from typing import Final

SHORT_TEXT_UNITS: Final = 256
"""Names, principals, idempotency keys and tokens, in UTF-16 code units (REC-1)."""
IDENTIFIER_UNITS: Final = 4_096
"""Every other identifier, in UTF-16 code units (REC-1)."""
LONG_TEXT_UNITS: Final = 65_536
"""`Text` fields of records, in UTF-16 code units."""

JSON_DEPTH: Final = 64
"""Depth of a JSON value; a scalar has depth 0 (REC-3)."""
JSON_COLLECTION: Final = 4_096
"""Members of one array or object (REC-3)."""
JSON_NODES: Final = 65_536
"""Values in one JSON value; keys are not counted (REC-3)."""
JSON_BYTES: Final = 1_048_576
"""Canonical UTF-8 bytes of one JSON field (REC-3)."""

RECORD_BYTES: Final = 4 * 1_048_576
"""Canonical bytes of one record (REC-3)."""
BATCH_RECORDS: Final = 256
"""Records in one batch (REC-3)."""
BATCH_BYTES: Final = 16 * 1_048_576
"""Canonical bytes of the records of one batch (REC-3)."""

PAGE_RECORDS: Final = 1_024
"""Records in one page of a read (LOG-8)."""
HYDRATION_BYTES: Final = 4 * 1_048_576
"""Raw bytes that a prompt read holds at a time (LOG-12)."""

CONTINUATION_BYTES: Final = 8 * 1_024
"""Canonical bytes of one RunContinuation record (LOG-14)."""
RUN_RECORDS: Final = 16_384
"""Facts of one run (LOG-14)."""
RUN_BYTES: Final = 32 * 1_048_576
"""Canonical bytes of the facts of one run (LOG-14)."""
SUFFIX_RECORDS: Final = 64
"""Facts of one run after its newest continuation (LOG-14)."""
SUFFIX_BYTES: Final = 2 * 1_048_576
"""Their canonical bytes (LOG-14)."""
TURN_BYTES: Final = 4 * 1_048_576
"""Canonical bytes of the facts of one turn (LOG-14)."""
TERMINAL_RECORDS: Final = 4
"""Terminal facts of one run, counted apart (LOG-14)."""
TERMINAL_BYTES: Final = 8 * 1_048_576 + 256 * 1_024
"""Their canonical bytes (LOG-14)."""
EVIDENCE_RECORDS: Final = 8
"""Facts in one page of run evidence (LOG-15)."""

TRANSFER_FACTS: Final = 256
"""Facts of one section in one transfer page (ARC-2)."""
TRANSFER_BYTES: Final = 32 * 1_048_576
"""Bytes of one transfer page (ARC-2)."""
CURSOR_UNITS: Final = 16_384
"""Characters of a cursor (ARC-2)."""
RANGE_RECORDS: Final = 1_024
"""Records of one archive range (ARC-6)."""
RANGE_BYTES: Final = 32 * 1_048_576
"""Canonical bytes of the records of one archive range (ARC-6)."""

LAST_EPOCH: Final = 999_999_999_999_999_999
"""The largest epoch: 18 digits, exact in a signed 64-bit integer (LOG-1)."""

LAYOUT_VERSION: Final = 21
RECORD_FORMAT: Final = "effect-agent/thread@3"
TRANSFER_FORMAT: Final = "effect-agent/thread-transfer@1"
