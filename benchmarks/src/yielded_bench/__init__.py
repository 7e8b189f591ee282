"""Benchmarks of the storage layer, side by side with the raw engines."""
