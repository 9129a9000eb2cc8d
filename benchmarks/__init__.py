"""The benchmarks: ``python -m benchmarks`` runs them all. See docs/benchmarks.md."""
