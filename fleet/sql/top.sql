-- Fields that fight most, over all hosts. Units and tool versions are keys: their numbers never meet in one sum.
-- Processes are programs (paths of executables). Sums stay exact: decimals, times a millionth.
SELECT unit, tool_version, type_name, fields, hosts, builds, processes, runs,
  CAST(micro AS DECIMAL(32, 0)) * CAST(0.000001 AS DECIMAL(6, 6)) AS transfers,
  1e6 * CAST(micro AS DOUBLE) / CAST(sum(micro) OVER (PARTITION BY unit, tool_version) AS DOUBLE) AS share_ppm
FROM (
  SELECT unit, tool_version, type_name, fields,
    count(DISTINCT host) AS hosts, count(DISTINCT build) AS builds, count(DISTINCT exe) AS processes,
    count(DISTINCT run) AS runs, sum(micro) AS micro
  FROM fights
  GROUP BY unit, tool_version, type_name, fields
) field
ORDER BY transfers DESC, unit, tool_version NULLS LAST, type_name NULLS LAST, fields
LIMIT :limit
