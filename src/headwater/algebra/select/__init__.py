"""From a SELECT of any shape to a tree of relations.

scope         what names mean at one place
query         WITH, set operations, one SELECT from FROM to LIMIT
tables        FROM: tables, views, subqueries, VALUES, joins, LATERAL, UNNEST
grouping      GROUP BY, grouping sets, aggregates, HAVING
ranking       window functions, QUALIFY, DISTINCT ON, ORDER BY … LIMIT
subqueries    EXISTS, IN, ANY, ALL and scalar subqueries, each a join
correlation   a subquery that speaks of rows outside it, made one that does not
"""
