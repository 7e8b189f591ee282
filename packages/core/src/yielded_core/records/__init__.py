"""The records of a thread: identifiers, bounds, bounded JSON, payload families, envelope."""
