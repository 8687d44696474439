"""What happened in a run: as a value, as a file, written by hand and played, and the figures of the papers."""
