"""Interleaved Pull-Push (Adly, Taha, Nagi, Samaan 2002, section 4, figures 1 and 2).

Each Update_Window the warehouse sends (t_k, t_k+1) to S_1 and S_n. Two messages go along the chain, one each way; each
source joins what they carry with its relation as it was, and appends its own updates δR of ]t_k, t_k+1]:

    forward    ∪_i  δR^i ⋈ R^(i+1)(t_k) ⋈ … ⋈ R^n(t_k)                   eq. (1)
    backward   ∪_j  R^1(t_k+1) ⋈ … ⋈ R^(j−1)(t_k+1) ⋈ δR^j               eq. (2)
    δV = backward ⊗ forward: the terms with i = j, joined on the row of δR^i   eq. (3)

⊗ joins δR^i with itself. The paper assumes no duplicates; here the backward terms carry the rows of δR^i with their
signed counts and the forward terms each row once with count 1, so that the product has each count once.

Invariant: V = V(t_v), where t_v ends the last interval applied; intervals are applied in their order. Strong.
Clocks are synchronised and a request leaves at t_k+1, so whoever is asked has seen every commit up to t_k+1.

Read into the paper: a message that carries nothing is not joined with anything; a view over one source gets one
request, to which the source answers with both messages; requests are acknowledged like the others.
"""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple

from headwater.algebra.bag import Bag, Row
from headwater.algebra.spj import Partial, Spj
from headwater.maintenance.strategies.acknowledged import Post
from headwater.maintenance.strategies.contract import (
    WAREHOUSE,
    Answer,
    Ask,
    Commit,
    Effect,
    Effects,
    Factory,
    Label,
    Node,
    Process,
    Send,
    Strategy,
    StrategySetting,
    Update,
    Wake,
    Work,
)
from headwater.maintenance.strategies.tagged_source import Applied, Past, RestoredJoin, TaggedSource, Terms, chained
from headwater.maintenance.strategies.time_tags import ALWAYS


def pull_push(update_window: float, ack_after: float = 0.2) -> Factory:
    """`ack_after` is Δt."""

    def make(setting: StrategySetting) -> Strategy:
        chained(setting)
        processes: dict[Node, Process] = {WAREHOUSE: PullPushWarehouse(setting, update_window, Post(ack_after))}
        for i, source in enumerate(setting.homes):
            processes[source] = PullPushSource(setting, i, Post(ack_after))
        return Strategy(processes, notified=lambda source: (source,))

    return make


class PullRequest(NamedTuple):
    """Send me your updates of ]t_k, t_k+1]."""

    t_k: float
    t_k1: float
    serial: int = 0

    @property
    def weight(self) -> int:
        return 2

    @property
    def kind(self) -> str:
        return "request"


class Forward(NamedTuple):
    """δV_frwrd_msg. `about` are the updates that it carries."""

    terms: Terms
    t_k: float
    t_k1: float
    about: tuple[Label, ...] = ()
    serial: int = 0

    @property
    def weight(self) -> int:
        return 2 + sum(partial.weight for _, partial in self.terms)


class Backward(NamedTuple):
    """δV_bckwrd_msg."""

    terms: Terms
    t_k: float
    t_k1: float
    about: tuple[Label, ...] = ()
    serial: int = 0

    @property
    def weight(self) -> int:
        return 2 + sum(partial.weight for _, partial in self.terms)


class RequestUpdates(NamedTuple):
    """Update_Window is over."""


class PullPushSource:
    """MODULE SOURCE(i), figure 1."""

    def __init__(self, setting: StrategySetting, i: int, post: Post, past: Past | None = None) -> None:
        self.setting = setting
        self.i = i
        self.post = post
        self.tagged: Past = past or TaggedSource(setting, i)
        self._tickets = count()
        self._joining: dict[int, Forward | Backward] = {}

    def start(self) -> Effects:
        return ()

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        effects, new = self.post.take(sender, body)
        if not new:
            return effects
        if isinstance(body, Update):
            self.tagged.commit(body)
        elif isinstance(body, Applied):
            self.tagged.truncate(body.t_v)
        elif isinstance(body, PullRequest):
            if self.i == 0:
                effects += self._append(Forward((), body.t_k, body.t_k1))
            if self.i == self.setting.view.n - 1:
                effects += self._append(Backward((), body.t_k, body.t_k1))
        elif isinstance(body, Answer):
            message = self._joining.pop(body.ticket)
            effects += [Work(), *self._append(message._replace(terms=body.value.terms))]
        else:
            effects += self._join(body)
        return effects

    def _join(self, message: Forward | Backward) -> list[Effect]:
        """Compute R^i(t), then δV ⋈ R^i(t): t_k on the way forward, t_k+1 on the way back."""
        if not message.terms:
            return self._append(message)
        ticket = next(self._tickets)
        self._joining[ticket] = message
        t = message.t_k if isinstance(message, Forward) else message.t_k1
        question = RestoredJoin(self.setting.view, message.terms, self.i, self.tagged.relation, t)
        return [Ask(self.setting.homes[self.i], question, ticket, message.about)]

    def _append(self, message: Forward | Backward) -> list[Effect]:
        """Append δR^i, send to the next source."""
        to = self.i + 1 if isinstance(message, Forward) else self.i - 1
        receiver = self.setting.homes[to] if 0 <= to < self.setting.view.n else WAREHOUSE
        updates, labels = self.tagged.updates(message.t_k, message.t_k1)
        if not labels and not message.terms:
            return self.post.send(receiver, message)
        own = self.setting.view.origin(self.i, updates.change)
        if isinstance(message, Forward):
            own = Partial(own.over, Bag(dict.fromkeys(own.bag.counts, 1)))
        terms = tuple((i, partial) for i, partial in (*message.terms, (self.i, own)) if partial.bag)
        return self.post.send(receiver, message._replace(terms=terms, about=message.about + labels))


class PullPushWarehouse:
    """MODULE DATA WAREHOUSE, figure 2."""

    def __init__(self, setting: StrategySetting, update_window: float, post: Post, t_v: float = ALWAYS) -> None:
        self.setting = setting
        self.update_window = update_window
        self.post = post
        self.requested = t_v
        """t_k+1 of the last request."""
        self.t_v = t_v
        self.temp_frwrd: dict[float, Forward] = {}
        self.temp_bckwrd: dict[float, Backward] = {}
        """By t_k."""

    def start(self) -> Effects:
        return [Wake(self.update_window, RequestUpdates())]

    def receive(self, sender: Node, body: Any, now: float) -> Effects:
        effects, new = self.post.take(sender, body)
        if not new:
            return effects
        if isinstance(body, RequestUpdates):
            return self._request(now)
        if isinstance(body, Forward):
            self.temp_frwrd[body.t_k] = body
        else:
            self.temp_bckwrd[body.t_k] = body
        return [*effects, *self._apply()]

    def _request(self, now: float) -> list[Effect]:
        request, self.requested = PullRequest(self.requested, now), now
        effects: list[Effect] = [Wake(self.update_window, RequestUpdates())]
        for source in dict.fromkeys((self.setting.homes[0], self.setting.homes[-1])):
            effects += self.post.send(source, request)
        return effects

    def _apply(self) -> list[Effect]:
        """Whatever follows t_v and has come both ways."""
        effects: list[Effect] = []
        before = self.t_v
        while self.t_v in self.temp_frwrd and self.t_v in self.temp_bckwrd:
            forward, backward = self.temp_frwrd.pop(self.t_v), self.temp_bckwrd.pop(self.t_v)
            self.t_v = forward.t_k1
            if forward.about:
                change, joins = special_join(self.setting.view, backward.terms, forward.terms)
                effects += [Work(joins), Commit(((self.setting.view.name, change),), forward.about)]
        if self.t_v > before:
            effects += [Send(source, Applied(self.t_v)) for source in self.setting.homes]
        return effects


def special_join(view: Spj, backward: Terms, forward: Terms) -> tuple[Bag, int]:
    """backward ⊗ forward, as rows of V, and how many local joins it took."""
    total, joins = Bag(), 0
    ahead = dict(forward)
    for i, left in backward:
        right = ahead.get(i)
        if right is None:
            continue
        joins += 1
        there, here = view.span(left.over, i), view.span(right.over, i)
        found: dict[Row, list[tuple[Row, int]]] = {}
        for row, times in right.bag:
            found.setdefault(row[here], []).append((row[here.stop :], times))
        joined = ((row + rest, signed * times) for row, signed in left.bag for rest, times in found.get(row[there], ()))
        total = total + view.finish(Partial(tuple(range(view.n)), Bag.summed(joined)))
    return total, joins
