-- Fields that nobody saw fight before a day, in whatever unit and by whatever version: a newer tussle makes no field
-- new. :since is a day (2026-11-22); :build, where it is not empty, stands for the first day of that build. What was
-- also seen in a run of which the day is not known may be older: it is left out.
SELECT unit, tool_version, type_name, fields, first_day, hosts, builds,
  CAST(micro AS DECIMAL(32, 0)) * CAST(0.000001 AS DECIMAL(6, 6)) AS transfers
FROM (
  SELECT unit, tool_version, type_name, fields, hosts, builds, micro,
    min(seen) OVER (PARTITION BY type_name, fields) AS first_day,
    max(undated) OVER (PARTITION BY type_name, fields) AS ever_undated
  FROM (
    SELECT unit, tool_version, type_name, fields, count(DISTINCT host) AS hosts, count(DISTINCT build) AS builds,
      sum(micro) AS micro, min(day) AS seen,
      max(CASE WHEN day = 'unknown' THEN 1 ELSE 0 END) AS undated
    FROM fights
    GROUP BY unit, tool_version, type_name, fields
  ) by_version
) field
WHERE ever_undated = 0 AND first_day >=
  CASE WHEN :build = '' THEN :since ELSE (SELECT min(day) FROM runs WHERE build = :build AND day <> 'unknown') END
ORDER BY transfers DESC, unit, tool_version NULLS LAST, type_name NULLS LAST, fields
LIMIT :limit
