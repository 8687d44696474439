"""Every operator of the relation tree, one file each: its change rule, and how it passes a question on.

    changes(node)              the node's changelog over a batch (lo, hi], every row with its own transaction
    ask(node, columns, keys)   rows of the node at hi whose columns have these keys; more do no harm, for whoever asked
                               looks at those keys only

The state at s, of some keys, is what is asked less what changed in (s, hi] (DESIGN, "One contract"). So no operator
keeps anything, and none asks for a state of the past. What a node is by definition, `algebra.render` says.
"""
