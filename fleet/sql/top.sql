-- Fields that fight most, over all hosts. Units and tool versions are keys: their numbers never meet in one sum.
SELECT unit, tool_version, type_name, fields, hosts, builds, processes, runs, transfers,
  CAST(floor(1000000.0 * transfers / sum(transfers) OVER (PARTITION BY unit, tool_version)) AS BIGINT) AS share_ppm
FROM (
  SELECT unit, tool_version, type_name, fields,
    count(DISTINCT host) AS hosts, count(DISTINCT build) AS builds, count(DISTINCT exe) AS processes,
    count(DISTINCT run) AS runs, sum(CAST(round(transfers) AS BIGINT)) AS transfers
  FROM fights
  GROUP BY unit, tool_version, type_name, fields
) field
ORDER BY transfers DESC, unit, tool_version NULLS LAST, type_name NULLS LAST, fields
LIMIT :limit
