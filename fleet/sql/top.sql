-- Fields that fight most, over all hosts. Units and tool versions are keys: their numbers never meet in one sum.
SELECT f.unit, f.tool_version, f.type_name, f.fields,
  count(DISTINCT f.host) AS hosts, count(DISTINCT f.build) AS builds, count(DISTINCT f.exe) AS processes,
  count(DISTINCT f.run) AS runs,
  sum(CAST(round(f.transfers) AS BIGINT)) AS transfers,
  CAST(floor(1000000.0 * sum(CAST(round(f.transfers) AS BIGINT)) / max(t.total)) AS BIGINT) AS share_ppm
FROM fights f
JOIN (
  SELECT unit, tool_version, sum(CAST(round(transfers) AS BIGINT)) AS total FROM fights GROUP BY unit, tool_version
) t ON f.unit = t.unit AND f.tool_version = t.tool_version
GROUP BY f.unit, f.tool_version, f.type_name, f.fields
ORDER BY transfers DESC, f.unit, f.tool_version NULLS LAST, f.type_name NULLS LAST, f.fields
LIMIT :limit
