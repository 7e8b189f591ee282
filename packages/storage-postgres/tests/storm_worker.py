"""The process that forks the workers of the storms; `Processes` runs it."""

from __future__ import annotations

from yielded_storage_postgres import open_storage
from yielded_testing.storm import programs
from yielded_testing.storm.forking import serve

if __name__ == "__main__":
    assert open_storage  # loaded before anything is forked
    serve(programs.PROGRAMS)
