"""Which store a command works on: opened only if it exists, and shown without its password."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from yielded_core.storage import Storage

_PASSWORD: Final = re.compile(r"(?<=://)([^:/?#@]*):.*@")
_SECRET_OPTION: Final = re.compile(
    r"([?&][^=&]*(?:pass|secret|token|key)[^=&]*=)[^&]*", re.IGNORECASE
)


def existing_store(url: str) -> Storage:
    """Return the storage of a URL, which does not come into being by being looked at.

    Entering it raises StoreMissing when nothing is there. A storage without a file is always new.
    """
    if url.startswith("memory:") or "create=" in url:
        return open_storage(url)
    return open_storage(f"{url}{'&' if '?' in url else '?'}create=false")


def redacted(url: str) -> str:
    """Return a URL to be shown: passwords and other secrets are `***`."""
    return _SECRET_OPTION.sub(r"\1***", _PASSWORD.sub(r"\1:***@", url))
