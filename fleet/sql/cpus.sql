-- The same fields by CPU model: transfers of a million accesses of the runs in which they fight.
SELECT f.unit, f.tool_version, f.type_name, f.fields, f.cpu_model, count(DISTINCT f.host) AS hosts,
  count(DISTINCT f.run) AS runs, sum(CAST(round(f.transfers) AS BIGINT)) AS transfers,
  CAST(floor(1000000.0 * sum(CAST(round(f.transfers) AS BIGINT)) / sum(f.run_accesses)) AS BIGINT) AS per_million
FROM fights f
WHERE f.run_accesses > 0
GROUP BY f.unit, f.tool_version, f.type_name, f.fields, f.cpu_model
ORDER BY per_million DESC, f.unit, f.tool_version NULLS LAST, f.type_name NULLS LAST, f.fields, f.cpu_model NULLS LAST
LIMIT :limit
