-- Which rule of `check` breaks where: builds are what was checked.
SELECT type_name, rule, rules, tool_version, subject AS build, count(DISTINCT host) AS hosts, min(day) AS first_day,
  max(day) AS last_day, min(message) AS message
FROM checks WHERE status = 'violated'
GROUP BY type_name, rule, rules, tool_version, subject
ORDER BY type_name NULLS LAST, rule, rules, build, tool_version NULLS LAST
LIMIT :limit
