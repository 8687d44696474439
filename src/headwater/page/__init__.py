"""The live page: what a warehouse holds and what its run tells, to look at in a browser.

    look.py       what is known now, read no more often than it changes
    overview.py painting.py travel.py query.py freshness.py trust.py detail.py      from there to JSON values
    lab.py        plays of the published algorithms, by the lab's own objects
    work.py working.py    what its buttons start: commands, one at a time
    metrics.py    the same for Prometheus
    guard.py      who may ask
    server.py     the thin shell: addresses and streams
    static/       what the browser runs; no build step, nothing from elsewhere

Nothing here writes to the warehouse but pins of readers, asks a source, or starts a JVM; the commands that buttons
start may, in processes of their own.
"""
