-- Builds, the newest first.
SELECT build, min(started_unix_s) AS first_s, count(DISTINCT host) AS hosts, count(*) AS runs
FROM runs WHERE started_unix_s IS NOT NULL
GROUP BY build ORDER BY first_s DESC, build
LIMIT :limit
