"""The parts of tools/bench: one module a benchmark, and what they share."""
