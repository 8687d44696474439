"""The same strategies on real sources."""
