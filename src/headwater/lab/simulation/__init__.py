"""Virtual time: strategies on simulated sources, over channels that may lose and delay."""
