-- Which rule of `check` breaks where: builds are what was checked. Of a file of rules and a build the newest check
-- counts: what was mended since is not listed. Two hosts that export documents have builds of their own; a sweep's are
-- the same whichever machine answers. Older checks tell since when.
SELECT type_name, rule, rules, tool_version, subject AS build, count(DISTINCT host) AS hosts, min(since) AS first_day,
  max(day) AS last_day, min(message) AS message
FROM (
  SELECT type_name, rule, rules, tool_version, subject, host, day, status, message,
    min(CASE WHEN status = 'violated' THEN day END)
      OVER (PARTITION BY type_name, rule, rules, subject, CASE WHEN plan = 'exported' THEN host END) AS since,
    rank() OVER (PARTITION BY rules, subject, CASE WHEN plan = 'exported' THEN host END
      ORDER BY answered_unix_s DESC NULLS LAST, nullif(day, 'unknown') DESC NULLS LAST) AS age
  FROM checks
) checked
WHERE age = 1 AND status = 'violated'
GROUP BY type_name, rule, rules, tool_version, subject
ORDER BY type_name NULLS LAST, rule, rules, build, tool_version NULLS LAST
LIMIT :limit
