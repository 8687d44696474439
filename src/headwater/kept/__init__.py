"""Kept relations: what is stored of a relation so that its rows can be found by key.

contract    what a kept relation answers
memory      by looking at every row: the definition
runs        a file of rows and its indexes, memory-mapped
ranks       partial counts of an index in order; the value at a place, found over several runs
files       a changelog table's files, each with the indexes that were needed of it
"""
