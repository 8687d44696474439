"""Cluster, section 4.2: how often sources are asked for an update, and how much is sent, against K."""

from __future__ import annotations

from math import ceil

from headwater.lab.experiment import Claim, Experiment, Findings, Panel, Run, identity
from headwater.lab.histories.history import HEADER, VALUE, History
from headwater.lab.settings.cluster import ALONE, EVEN, PCS, RELATIONS, UPDATES, parallel, waiting
from headwater.lab.simulation.simulator import simulate

QUEUES = ("assigned", "forwarded", "numbered")
"""Messages that copy updates to the PCs: UMQ(V)i, and UMQ(AVj)."""


def run(run: Run) -> Findings:
    world = waiting(run.seed)
    rows: list[dict[str, float | str]] = []
    alone = [(0, name, simulate(world, factory, EVEN, run.seed)) for name, factory in ALONE]
    rows.extend(_row(*what) for what in alone)
    for k in run.each(PCS):
        for name, factory in parallel(k):
            rows.append(_row(k, name, simulate(world, factory, EVEN, run.seed)))
    names = [name for name, _ in parallel(1)]

    def lines(column: str) -> dict[str, list[tuple[int, float]]]:
        across = {str(row["algorithm"]): [(k, float(row[column])) for k in PCS] for row in rows if not row["K"]}
        return across | {
            name: [(int(row["K"]), float(row[column])) for row in rows if row["algorithm"] == name] for name in names
        }

    panels = [
        Panel("Accesses to sources", "PCs, K", "questions per update", lines("accesses")),
        Panel("Between the PCs and the sources", "PCs, K", "bytes per update", lines("bytes, sources")),
        Panel("Between the PCs, without relayed questions", "PCs, K", "bytes per update", lines("bytes, PCs")),
        Panel("Copies of the update message queue", "PCs, K", "bytes per update", lines("bytes, queues")),
    ]
    return Findings(rows, panels, _claims(rows))


def _row(k: int, name: str, history: History) -> dict[str, float | str]:
    """Per update. Relayed questions and their answers are on the way to or from a source; they count once."""
    sent = {kind: sum(m.bytes for m in history.messages if m.kind == kind) for kind in history.kinds()}
    outside = sent.get("question", 0) + sent.get("answer", 0)
    own = sum(b for kind, b in sent.items() if kind not in ("question", "answer", "update", "relayed", "replied"))
    return {
        "K": k,
        "algorithm": name,
        "accesses": history.questions / UPDATES,
        "bytes, sources": outside / UPDATES,
        "bytes, PCs": own / UPDATES,
        "bytes, queues": sum(sent.get(kind, 0) for kind in QUEUES) / UPDATES,
        "bytes, ring": sent.get("token", 0) / UPDATES,
        "largest token": max((m.bytes for m in history.messages if m.kind == "token"), default=0),
    }


def _claims(rows: list[dict[str, float | str]]) -> list[Claim]:
    at = {(str(row["algorithm"]), int(row["K"])): row for row in rows}

    def of(name: str, column: str) -> dict[int, float]:
        return {k: float(at[name, k][column]) for k in PCS}

    accesses, simple = of("equal partition", "accesses"), of("simple parallel", "accesses")
    queue, copies = of("equal partition", "bytes, queues"), of("simple parallel", "bytes, queues")
    inside, outside = of("simple parallel", "bytes, PCs"), of("simple parallel", "bytes, sources")
    shares = {k: inside[k] / (inside[k] + outside[k]) for k in PCS}
    ring, asked = of("equal partition", "bytes, ring"), of("equal partition", "bytes, sources")
    largest = of("equal partition", "largest token")[4]
    return [
        identity(
            "the number of accesses to the remote sites is reduced to ⌈n/K⌉ instead of n",
            "equal partition: " + ", ".join(f"{a:.2f} (⌈n/K⌉ = {ceil(RELATIONS / k)})" for k, a in accesses.items()),
            all(ceil(RELATIONS / k) - 1 == round(a, 9) for k, a in accesses.items()),
            "a loop over the others of the group, so exactly ⌈n/K⌉ − 1: the source of the update is not asked; SWEEP "
            "likewise asks n − 1, not n",
        ),
        identity(
            "the simple parallel algorithm visits the other n − 1 sources for each update, however many PCs there are",
            ", ".join(f"{a:.2f} (K = {k})" for k, a in simple.items()),
            all(round(a, 9) == RELATIONS - 1 for a in simple.values()),
            "each PC runs SWEEP's loop over the others",
        ),
        Claim(
            "the equal partition dramatically reduces the size of the update message queues at the other PCs",
            "bytes of updates sent to PCs, per update, simple / equal partition: "
            + ", ".join(f"{copies[k]:.0f} / {queue[k]:.0f} (K = {k})" for k in PCS if k > 1),
            all(copies[k] > 3 * queue[k] for k in PCS if k > 1),
            "The simple algorithm sends with each update all that waits behind it: here, where all wait from the "
            "start, half of all updates on average.",
        ),
        Claim(
            "communication among the PCs is negligible in the simple algorithm: only results are sent back",
            "share of all bytes that PCs send each other, without relayed questions: "
            + ", ".join(f"{share:.0%} (K = {k})" for k, share in shares.items() if k > 1),
            all(share < 0.1 for k, share in shares.items() if k > 1),
            "Results are small, but every PC also gets its copy of the queue. On a fast network that is still little "
            "time.",
        ),
        Claim(
            "the communication overheads among the PCs and between them and the sources are balanced (section 1.2)",
            "equal partition, bytes per update on the ring / to and from sources: "
            + ", ".join(f"{ring[k]:.0f} / {asked[k]:.0f} (K = {k})" for k in PCS if k > 1)
            + f"; largest message on the ring for K = 4: {largest:.0f} bytes",
            all(ring[k] < 2 * asked[k] for k in PCS if k > 1),
            "The ring knows no join conditions. From the last group it goes to the first, which no clause joins it "
            "with: a product with all of AV0, until the ring has come round. A fast network hides it here.",
        ),
    ]


EXPERIMENT = Experiment(
    name="cluster-accesses",
    paper="Cluster",
    shows="section 4.2",
    title="How often sources are asked",
    did="The paper argues: an update is evaluated inside its group of ⌈n/K⌉ relations by asking their sources, and "
    "the other auxiliary views are at hand inside the cluster.",
    found="⌈n/K⌉ accesses instead of n, and smaller queues at the PCs, at the expense of auxiliary views.",
    here=f"The runs of cluster-speedup: {RELATIONS} relations, {UPDATES} updates. Bytes are {HEADER} per message and "
    f"{VALUE} per value. A question that is relayed by the home of V is counted once, where it goes to the source.",
    run=run,
)
