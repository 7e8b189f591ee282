"""The model itself: what contract 2 says, over dictionaries, asking none of the rules."""

from __future__ import annotations
