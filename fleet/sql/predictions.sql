-- Predictions of a sweep, by subject, sides, machine and CPUs: over the seeds of their draws.
SELECT subject, before, after, machine, cpus, tool_version, count(*) AS points,
  CAST(sum(CAST(round(1e9 * median) AS BIGINT)) AS DOUBLE) / count(*) / 1e9 AS mean_median,
  min(low) AS lowest, max(high) AS highest, sum(CASE WHEN verdict = 'faster' THEN 1 ELSE 0 END) AS faster,
  sum(CASE WHEN verdict = 'slower' THEN 1 ELSE 0 END) AS slower
FROM predictions
GROUP BY subject, before, after, machine, cpus, tool_version
ORDER BY subject, before, after, machine, cpus, tool_version NULLS LAST
LIMIT :limit
