"""What is kept beside a view so that fewer questions leave the warehouse.

known        what a project says of it and what was measured: the ground of every choice
partition    a block of joins over auxiliary views of groups of its tables (equal and frequency partition)
groups       which tables go together
copies       tables read in copies of what views need of them (all, and sources that must not be asked)
relying      what is promised of tables, so that less of them must be kept
choose       from a view as written to the view and what is kept for it
"""
