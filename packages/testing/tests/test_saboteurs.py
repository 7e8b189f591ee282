"""How saboteurs are made: a rule replaced and put back, a port passed on but for one thing."""

from __future__ import annotations

from typing import Any

import pytest

from yielded_core.log import prepared
from yielded_core.ports.threads import ArchiveStore, CheckpointStore, ThreadStore
from yielded_core.records import bounds
from yielded_testing.saboteurs import Saboteur
from yielded_testing.saboteurs.model import WrongRule
from yielded_testing.saboteurs.proxies import Archives, Checkpoints, Threads
from yielded_testing.suites import idempotency


@pytest.mark.parametrize(
    ("proxy", "port"),
    [(Threads, ThreadStore), (Archives, ArchiveStore), (Checkpoints, CheckpointStore)],
)
def test_a_proxy_passes_every_operation_on(proxy: type, port: type) -> None:
    operations = {name for name in dir(port) if not name.startswith("_")}
    assert {name for name in vars(proxy) if not name.startswith("_")} == operations


def test_a_rule_is_replaced_wherever_it_was_imported() -> None:
    def wrong(_right: object) -> str:
        """Anything is prepared."""
        return "wrong"

    right = prepared.prepare_batch
    saboteur = Saboteur("x", (), "test_x", WrongRule(prepared, "prepare_batch", wrong))
    with saboteur.active():
        assert vars(prepared)["prepare_batch"] == vars(idempotency)["prepare_batch"] == "wrong"
    assert vars(prepared)["prepare_batch"] is vars(idempotency)["prepare_batch"] is right
    assert (saboteur.wrong, saboteur.touches) == ("Anything is prepared.", {"prepare_batch"})


def test_a_rule_is_put_back_after_an_error() -> None:
    def interrupted() -> None:
        rule = WrongRule(bounds, "SUFFIX_RECORDS", lambda right: right + 1)
        with rule.active():
            assert bounds.SUFFIX_RECORDS == 65
            raise InterruptedError

    with pytest.raises(InterruptedError):
        interrupted()
    assert bounds.SUFFIX_RECORDS == 64


def test_a_saboteur_says_what_it_does_wrong() -> None:
    class Wrong(Threads):
        """Tails are wrong."""

        async def tail(self, thread: object) -> Any:  # noqa: ANN401 - as wrong as can be
            del thread

    saboteur = Saboteur("x", (), "test_x", Wrong)
    assert saboteur.wrong == "Tails are wrong."
    assert "tail" in saboteur.touches
    assert "append" not in saboteur.touches
