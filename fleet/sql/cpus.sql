-- The same fields by CPU model: transfers of a million accesses of the runs in which they
-- fight.
SELECT unit, tool_version, type_name, fields, cpu_model, count(DISTINCT host) AS hosts, count(*) AS runs,
  CAST(sum(micro) AS DECIMAL(32, 0)) * CAST(0.000001 AS DECIMAL(6, 6)) AS transfers,
  CAST(sum(micro) AS DOUBLE) / CAST(sum(run_accesses) AS DOUBLE) AS per_million
FROM fields_of_runs WHERE by_phase = 0
GROUP BY unit, tool_version, type_name, fields, cpu_model
ORDER BY per_million DESC, unit, tool_version NULLS LAST, type_name NULLS LAST, fields, cpu_model NULLS LAST
LIMIT :limit
