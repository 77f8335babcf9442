-- The same fields by where the object begins in its line.
SELECT f.unit, f.tool_version, f.type_name, f.fields, f.phase_bytes, count(DISTINCT f.host) AS hosts,
  count(DISTINCT f.run) AS runs, sum(CAST(round(f.transfers) AS BIGINT)) AS transfers,
  CAST(floor(1000000.0 * sum(CAST(round(f.transfers) AS BIGINT)) / sum(f.run_accesses)) AS BIGINT) AS per_million
FROM fights f
WHERE f.run_accesses > 0 AND f.phase_bytes IS NOT NULL
GROUP BY f.unit, f.tool_version, f.type_name, f.fields, f.phase_bytes
ORDER BY per_million DESC, f.unit, f.tool_version NULLS LAST, f.type_name NULLS LAST, f.fields, f.phase_bytes
LIMIT :limit
