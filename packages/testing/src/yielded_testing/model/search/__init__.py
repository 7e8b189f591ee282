"""The search for sequences of commands that an adapter answers otherwise than the model."""

from __future__ import annotations
