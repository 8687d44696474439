"""Virtual time, simulated sources, the checker, and the papers' experiments. No Spark, no I/O but reports."""
