"""The published algorithms, each in the file that bears its name, all against `contract`."""
