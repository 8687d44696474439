"""PVM's cost model (Zhang, Ding, Rundensteiner 2003, section 5): equations 4 to 16, each a function.

    n   updates, all of which have happened before the first is handled     p   size of the PPU
    m   sources, each with one relation and n/m of the updates, in turn     q   questions that the sources can work on
    t   time to handle one update                                               at one time; one each here, so q = m

Updates and sources are numbered from 1, as in the paper. A "query" is a question to a source (remote) or a local join.
"""

from __future__ import annotations


def local_queries_of(i: int, j: int, m: int, n: int) -> int:
    """Entry (i, j) of matrix 3: the updates of source j that come after update i, none if i is of source j itself."""
    if (i - j) % m == 0:
        return 0
    # those of source j are j, j + m, j + 2m …; the first k of them are before i
    k = (i - j - 1) // m + 1
    return n // m - k


def printed_local_queries_of(i: int, j: int, m: int, n: int) -> int:
    """Equations 4 and 5 as they are printed, read as kindly as possible: k rounded down, 0 for the source of the update
    itself. They are not matrix 3: for update 2 and source 1 they say n/m instead of n/m − 1."""
    if (i - j) % m == 0:
        return 0
    # k = (i − 2)/m + 1 for i > 1, 0 for i = 1                                                           (5)
    k = (i - 2) // m + 1 if i > 1 else 0
    # n/m − k for j ≤ (i − 2) mod (m + 1), n/m − (k − 1) for j > that, not below 0                       (4)
    fewer = k if j <= (i - 2) % (m + 1) else k - 1
    return max(0, n // m - fewer)


def local_queries(m: int, n: int) -> float:
    """M_local. The paper's sum in the middle must be n(n − 1)/2 less the pairs of updates of the same source; what is
    left, the pairs of different sources, is this exactly if m divides n."""
    # M_local = (m − 1)/(2m) · n²                                                                       (6)
    return (m - 1) / (2 * m) * n**2


def remote_queries(m: int, n: int) -> int:
    """M_remote."""
    # M_remote = (m − 1) n                                                                              (7)
    return (m - 1) * n


def sweep_time(m: int, n: int, remote: float, local: float) -> float:
    """T_SWEEP, with local joins."""
    # T_SWEEP = M_remote · C_remote + M_local · C_local                                                 (8)
    return remote_queries(m, n) * remote + local_queries(m, n) * local


def sweep_time_without_local(m: int, n: int, remote: float) -> float:
    """T_SWEEP, when there are few enough updates to ignore local joins."""
    # T_SWEEP = (nm − n) · C_remote = n t                                                          (9), (11)
    return n * update_time(m, remote)


def update_time(m: int, remote: float) -> float:
    """t, for one update."""
    # t_SWEEP = (m − 1) · C_remote                                                                     (10)
    return (m - 1) * remote


def wait(i: int, k: int, t: float, a: float = 0.0) -> float:
    """How long update i waits until it is handled: k = min(p, q) are at the same time, starting one takes a."""
    # Wait(i) = ⌊(i − 1)/k⌋ t + ((i − 1) mod k) a                                                (12), (13)
    return (i - 1) // k * t + (i - 1) % k * a


def pvm_time(n: int, k: int, t: float, a: float = 0.0) -> float:
    """T_PVM."""
    # T_PVM = max Wait(i) + t, over i = 1 … n                                                          (14)
    return max(wait(i, k, t, a) for i in range(1, n + 1)) + t


def pvm_time_simplified(n: int, k: int, t: float) -> float:
    """T_PVM, if k divides n − 1 and a is small: what the paper's left charts are drawn from."""
    # T_PVM = ((n − 1)/k + 1) t                                                                        (15)
    return ((n - 1) / k + 1) * t


def local_share(m: int, n: float, local_per_remote: float) -> float:
    """The time for local joins, compared with that for remote ones, of one update."""
    # t_local / t_remote = n/(2m) · C_local / C_remote                                                 (16)
    return n / (2 * m) * local_per_remote


def most_updates(m: int, local_per_remote: float, share: float) -> float:
    """Equation 16 the other way round: how many concurrent updates there can be until local joins are this share."""
    return share * 2 * m / local_per_remote


def arriving_time(at_once: float, n: int, t: float, interval: float) -> float:
    """T when an update comes every `interval`. The model does not have intervals; this is how section 7.6 talks of it:
    as long as for all at once, or until the last has come and been handled."""
    return max(at_once, (n - 1) * interval + t)
