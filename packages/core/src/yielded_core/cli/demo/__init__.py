"""The demonstration: a writer is killed in mid-append, another takes over, nothing is lost."""
