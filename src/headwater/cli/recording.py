"""From what the runtime recorded to what the lab judges: the two do not know each other."""

from __future__ import annotations

from bisect import bisect_right

from headwater.lab.histories.history import CutShown, History, State
from headwater.maintenance.strategies.contract import Label, Update
from headwater.runtime.reading.recording import Recording


def recorded(recording: Recording) -> History:
    """Each source's transactions are numbered from 1; a state covers those since the one before; a cut shows a prefix
    of them in each view."""
    history = History(
        {table: tuple(schema.names) for table, schema in recording.schemas.items()},
        tuple(recording.views),
        recording.initial,
        recording.content,
    )
    numbers: dict[str, int] = {}
    labels: list[tuple[int, Label]] = []
    for one in recording.transactions:
        numbers[one.source] = numbers.get(one.source, 0) + 1
        label = Label(one.source, numbers[one.source])
        labels.append((one.seq, label))
        history.transactions.append(Update(label, one.changes, one.at, "", one.part_of))
    taken = 0
    for seq, changes in recording.states:
        covers = []
        while taken < len(labels) and labels[taken][0] <= seq:
            covers.append(labels[taken][1])
            taken += 1
        history.states.append(State(float(seq), tuple(changes.items()), tuple(covers)))
    seqs = [one.seq for one in recording.transactions]
    for cut in recording.cuts:
        shows = {view: bisect_right(seqs, seq) for view, seq in cut.shows.items()}
        history.cuts.append(CutShown(cut.number, cut.at, shows, tuple(cut.changes.items())))
    return history
