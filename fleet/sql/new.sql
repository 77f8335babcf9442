-- Fields that nobody saw fight before a day. :since is a day (2026-11-22); :build, where it is not empty, stands for
-- the first day of that build.
SELECT f.unit, f.tool_version, f.type_name, f.fields, min(f.day) AS first_day, count(DISTINCT f.host) AS hosts,
  count(DISTINCT f.build) AS builds, sum(CAST(round(f.transfers) AS BIGINT)) AS transfers
FROM fights f
GROUP BY f.unit, f.tool_version, f.type_name, f.fields
HAVING min(f.day) >= coalesce((SELECT min(day) FROM runs WHERE build = :build), :since)
ORDER BY transfers DESC, f.unit, f.tool_version, f.type_name, f.fields
LIMIT :limit
