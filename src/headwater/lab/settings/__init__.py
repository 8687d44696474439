"""Worlds and conditions that several experiments share: a file for each paper, or part of one."""
