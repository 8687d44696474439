"""The paper's examples, step by step, with the tables it prints."""

from __future__ import annotations

from headwater.merge import Painting, SimplePainting, ViewUpdateTable, WarehouseTransaction

from .tables import VIEWS, al, colors, states, text


def rows(released: list[WarehouseTransaction]) -> list[tuple[int, ...]]:
    return [transaction.rows for transaction in released]


def names(transaction: WarehouseTransaction) -> list[str]:
    return [a.actions for a in transaction.actions]


def test_example_1_both_views_change_at_once() -> None:
    # V1 = R ⋈ S, V2 = S ⋈ T; [2, 3] is inserted into S. In Table 1, V1 shows it at t2 and V2 only at t3.
    merge = SimplePainting(ViewUpdateTable(("V1", "V2")))
    assert merge.relevance(1, ("V1", "V2")) == []
    assert merge.action_list(al(1, 1)) == []  # t2: held
    [transaction] = merge.action_list(al(1, 2))  # t3: both
    assert names(transaction) == ["AL_1^1", "AL_1^2"]
    assert transaction.views == {"V1", "V2"}
    assert len(merge.table) == 0


def test_example_2_the_view_update_table() -> None:
    # V1 = R ⋈ S, V2 = S ⋈ T ⋈ Q, V3 = Q; U1 on S, U2 on Q.
    table = ViewUpdateTable(VIEWS)
    merge = SimplePainting(table)
    merge.relevance(1, ("V1", "V2"))
    merge.relevance(2, ("V2", "V3"))
    assert colors(table) == text("""
            V1 V2 V3  WT
        U1  w  w  b   {}
        U2  b  w  w   {}
    """)
    assert merge.action_list(al(1, 2)) == []
    assert colors(table) == text("""
            V1 V2 V3  WT
        U1  w  r  b   {AL_1^2}
        U2  b  w  w   {}
    """)
    assert rows(merge.action_list(al(1, 1))) == [(1,)]
    assert colors(table) == text("""
            V1 V2 V3  WT
        U2  b  w  w   {}
    """)


def test_example_3_simple_painting() -> None:
    # V1 = R ⋈ S, V2 = S ⋈ T, V3 = Q; U1 on S, U2 on Q, U3 on T. Times are changes of the table.
    table = ViewUpdateTable(VIEWS)
    seen: list[str] = []
    merge = SimplePainting(table, trace=lambda _: seen.append(colors(table)))
    merge.relevance(1, ("V1", "V2"))  # t0
    merge.action_list(al(1, 2))  # t1
    merge.relevance(2, ("V3",))  # t2
    merge.relevance(3, ("V2",))  # t3
    assert rows(merge.action_list(al(2, 3))) == [(2,)]  # t4 to t6
    assert merge.action_list(al(3, 2)) == []  # t7
    assert rows(merge.action_list(al(1, 1))) == [(1,), (3,)]  # t8 to t11, and row 3 is purged
    t4, t5, t6, t7, t8, t9, t10, t11, end = seen[4:]
    assert t4 == text("""
            V1 V2 V3  WT
        U1  w  r  b   {AL_1^2}
        U2  b  b  r   {AL_2^3}
        U3  b  w  b   {}
    """)
    assert t5 == text("""
            V1 V2 V3  WT
        U1  w  r  b   {AL_1^2}
        U2  b  b  g   {}
        U3  b  w  b   {}
    """)
    assert t6 == text("""
            V1 V2 V3  WT
        U1  w  r  b   {AL_1^2}
        U3  b  w  b   {}
    """)
    assert t7 == text("""
            V1 V2 V3  WT
        U1  w  r  b   {AL_1^2}
        U3  b  r  b   {AL_3^2}
    """)
    assert t8 == text("""
            V1 V2 V3  WT
        U1  r  r  b   {AL_1^2, AL_1^1}
        U3  b  r  b   {AL_3^2}
    """)
    assert t9 == text("""
            V1 V2 V3  WT
        U1  g  g  b   {}
        U3  b  r  b   {AL_3^2}
    """)
    assert t10 == text("""
            V1 V2 V3  WT
        U3  b  r  b   {AL_3^2}
    """)
    assert t11 == text("""
            V1 V2 V3  WT
        U3  b  g  b   {}
    """)
    assert end == "V1 V2 V3 WT"


def test_example_4_intertwined_updates() -> None:
    # V1 = R ⋈ S, V2 = S ⋈ T ⋈ Q, V3 = Q; U1 on S, U2 on Q, U3 on S. V1's manager sends one list for U1 and U3.
    table = ViewUpdateTable(VIEWS)
    merge = Painting(table)
    merge.relevance(1, ("V1", "V2"))
    merge.relevance(2, ("V2", "V3"))
    merge.relevance(3, ("V1", "V2"))
    # "When the merge process receives AL_1^1, it fills in VUT[1,1].state = 3": it is AL_3^1 that it receives.
    for arrived in (al(3, 1), al(1, 2), al(2, 2), al(2, 3)):
        assert merge.action_list(arrived) == []
    assert colors(table) == text("""
            V1 V2 V3  WT
        U1  r  r  b   {AL_1^2}
        U2  b  r  r   {AL_2^2, AL_2^3}
        U3  r  w  b   {AL_3^1}
    """)
    assert table.entry(1, "V1").state == 3
    # "the receipt of AL_3^2 will cause actions in the previous two rows to be applied", all in one.
    [transaction] = merge.action_list(al(3, 2))
    assert transaction.rows == (1, 2, 3)
    assert names(transaction) == ["AL_1^2", "AL_2^2", "AL_2^3", "AL_3^1", "AL_3^2"]


def test_example_5_painting() -> None:
    # The views of Example 4; U1 on S, U2 on Q, U3 on Q. The text lists the arrivals as AL_1^2, AL_2^2, AL_3^2, AL_1^1,
    # AL_3^3; its tables say AL_1^2, AL_3^2, AL_2^3, AL_1^1, AL_3^3, and only these lead to the states it shows.
    table = ViewUpdateTable(VIEWS)
    seen: list[str] = []
    merge = Painting(table, trace=lambda _: seen.append(states(table)))
    merge.relevance(1, ("V1", "V2"))
    merge.relevance(2, ("V2", "V3"))
    merge.relevance(3, ("V2", "V3"))
    assert states(table) == text("""
            V1     V2     V3     WT
        U1  (w,0)  (w,0)  (b,0)  {}
        U2  (b,0)  (w,0)  (w,0)  {}
        U3  (b,0)  (w,0)  (w,0)  {}
    """)
    assert merge.action_list(al(1, 2)) == []  # t1
    assert merge.action_list(al(3, 2)) == []  # t2
    assert states(table) == text("""
            V1     V2     V3     WT
        U1  (w,0)  (r,1)  (b,0)  {AL_1^2}
        U2  (b,0)  (r,3)  (w,0)  {}
        U3  (b,0)  (r,3)  (w,0)  {AL_3^2}
    """)
    assert merge.action_list(al(2, 3)) == []  # t3
    del seen[:]
    assert rows(merge.action_list(al(1, 1))) == [(1,)]  # t4, t5
    t4, t5, purged = seen
    assert t4 == text("""
            V1     V2     V3     WT
        U1  (r,1)  (r,1)  (b,0)  {AL_1^2, AL_1^1}
        U2  (b,0)  (r,3)  (r,2)  {AL_2^3}
        U3  (b,0)  (r,3)  (w,0)  {AL_3^2}
    """)
    # From here the paper prints (r,0) for VUT[2,3]; nothing sets a state back, it stays (r,2), as t7 has it again.
    assert t5 == text("""
            V1     V2     V3     WT
        U1  (g,1)  (g,1)  (b,0)  {}
        U2  (b,0)  (r,3)  (r,2)  {AL_2^3}
        U3  (b,0)  (r,3)  (w,0)  {AL_3^2}
    """)
    assert purged == "\n".join(line for line in t5.splitlines() if not line.startswith("U1"))
    del seen[:]
    [transaction] = merge.action_list(al(3, 3))  # t6, t7
    assert transaction.rows == (2, 3)
    assert names(transaction) == ["AL_2^3", "AL_3^2", "AL_3^3"]
    t6, t7, end = seen
    assert t6 == text("""
            V1     V2     V3     WT
        U2  (b,0)  (r,3)  (r,2)  {AL_2^3}
        U3  (b,0)  (r,3)  (r,3)  {AL_3^2, AL_3^3}
    """)
    assert t7 == text("""
            V1     V2     V3     WT
        U2  (b,0)  (g,3)  (g,2)  {}
        U3  (b,0)  (g,3)  (g,3)  {}
    """)
    assert end == "V1 V2 V3 WT"
