-- Fields that nobody saw fight before a day. :since is a day (2026-11-22); :build, where it is not empty, stands for
-- the first day of that build. What was also seen in a run of which the day is not known may be older: it is left out.
SELECT f.unit, f.tool_version, f.type_name, f.fields, min(f.day) AS first_day, count(DISTINCT f.host) AS hosts,
  count(DISTINCT f.build) AS builds, sum(CAST(round(f.transfers) AS BIGINT)) AS transfers
FROM fights f
GROUP BY f.unit, f.tool_version, f.type_name, f.fields
HAVING max(CASE WHEN f.day = 'unknown' THEN 1 ELSE 0 END) = 0 AND min(f.day) >=
  CASE WHEN :build = '' THEN :since ELSE (SELECT min(day) FROM runs WHERE build = :build AND day <> 'unknown') END
ORDER BY transfers DESC, f.unit, f.tool_version NULLS LAST, f.type_name NULLS LAST, f.fields
LIMIT :limit
