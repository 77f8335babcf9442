-- Builds, the newest first; at the end those of which no run says when it was.
SELECT build, min(started_unix_s) AS first_s, count(DISTINCT host) AS hosts, count(*) AS runs
FROM runs
GROUP BY build ORDER BY first_s DESC NULLS LAST, build
LIMIT :limit
