"""The process that forks the workers of the tests; `Processes` runs it."""

from __future__ import annotations

import fault_programs
import worker_programs

from yielded_testing.storm import programs
from yielded_testing.storm.forking import serve

if __name__ == "__main__":
    serve(worker_programs.PROGRAMS | fault_programs.PROGRAMS | programs.PROGRAMS)
