"""Conformance suites, saboteurs and a pytest plugin for adapters of yielded."""
