-- The same fields by CPU model: transfers of a million accesses of the runs in which they fight. A run has several
-- rows of a field (a row for each process and for each place that allocates): it counts once.
SELECT unit, tool_version, type_name, fields, cpu_model, count(DISTINCT host) AS hosts, count(*) AS runs,
  sum(transfers) AS transfers,
  CAST(floor(1000000.0 * sum(transfers) / sum(run_accesses)) AS BIGINT) AS per_million
FROM (
  SELECT unit, tool_version, type_name, fields, cpu_model, host, run,
    sum(CAST(round(transfers) AS BIGINT)) AS transfers, max(run_accesses) AS run_accesses
  FROM fights
  WHERE run_accesses > 0
  GROUP BY unit, tool_version, type_name, fields, cpu_model, host, run
) in_run
GROUP BY unit, tool_version, type_name, fields, cpu_model
ORDER BY per_million DESC, unit, tool_version NULLS LAST, type_name NULLS LAST, fields, cpu_model NULLS LAST
LIMIT :limit
