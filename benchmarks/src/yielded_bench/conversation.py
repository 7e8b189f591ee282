"""The aggregate measured of `eventsourcing`, which finds it again by its module and name."""

from __future__ import annotations

from eventsourcing.domain import Aggregate, event


class Conversation(Aggregate):
    """Only how long it is: what was said is in its events."""

    def __init__(self) -> None:
        self.length = 0

    @event("Said")
    def say(self, text: str) -> None:
        """Say something."""
        self.length += len(text) > 0
