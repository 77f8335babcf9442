-- Drill-down into the raw tables: recorded accesses by unit, tool version and day.
SELECT r.unit, r.tool_version, a.day, count(*) AS access_rows, count(DISTINCT a.run) AS runs,
  CAST(sum(a.reads + a.writes + a.rmws) AS BIGINT) AS accesses
FROM files_accesses a JOIN runs r ON a.run = r.run AND a.day = r.day AND a.host = r.host AND a.build = r.build
GROUP BY r.unit, r.tool_version, a.day
ORDER BY a.day, r.unit NULLS LAST, r.tool_version NULLS LAST
LIMIT :limit
