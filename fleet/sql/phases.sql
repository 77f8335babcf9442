-- The same fields by where the object begins in its line: transfers of a million accesses of the runs in which they
-- fight.
SELECT unit, tool_version, type_name, fields, phase_bytes, count(DISTINCT host) AS hosts, count(*) AS runs,
  CAST(sum(micro) AS DECIMAL(32, 0)) * CAST(0.000001 AS DECIMAL(6, 6)) AS transfers,
  CAST(sum(micro) AS DOUBLE) / CAST(sum(run_accesses) AS DOUBLE) AS per_million
FROM fields_of_runs WHERE by_phase = 1 AND phase_bytes IS NOT NULL
GROUP BY unit, tool_version, type_name, fields, phase_bytes
ORDER BY per_million DESC, unit, tool_version NULLS LAST, type_name NULLS LAST, fields, phase_bytes
LIMIT :limit
