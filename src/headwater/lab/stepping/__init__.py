"""The papers' figures and algorithms as plays: every step of a run in virtual time, to be looked at one by one."""
