-- What a sweep answered: how many points by plan, verb and status. A plan is what it asks; the name is that of one of
-- its files. The first error is that of the first point that has one; an exported document is no numbered point.
SELECT plan, min(plan_name) AS name, verb, tool_version, status, count(*) AS points, count(error) AS errors,
  coalesce(min_by(error, CASE WHEN error IS NOT NULL THEN job END), min(error)) AS first_error
FROM answers
GROUP BY plan, verb, tool_version, status
ORDER BY plan, verb, tool_version NULLS LAST, status NULLS LAST
LIMIT :limit
