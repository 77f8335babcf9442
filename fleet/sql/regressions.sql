-- A field between two builds, on hosts that ran both: the mean over hosts of the logarithm of new over old, where a
-- host's value is the mean over its runs of transfers of an access, all rows of a field in a run together.
-- Hosts are the samples, whatever number of runs each has.
-- The caller makes intervals of n, mean and standard deviation, and corrects for the number of rows. Sums are of whole
-- numbers (millionths of a logarithm), so that no order of adding changes a digit.
SELECT unit, tool_version, type_name, fields, count(*) AS hosts,
  CAST(sum(micro) AS DOUBLE) / count(*) / 1e6 AS mean_log,
  sqrt(greatest(0e0, CAST(sum(CAST(micro * micro AS DECIMAL(38, 0))) AS DOUBLE)
    - CAST(sum(micro) AS DOUBLE) * CAST(sum(micro) AS DOUBLE) / count(*)) / (count(*) - 1)) / 1e6 AS sd_log,
  CAST(sum(CAST(round(old_e15) AS DECIMAL(38, 0))) AS DOUBLE) / count(*) / 1e9 AS old_per_million,
  CAST(sum(CAST(round(new_e15) AS DECIMAL(38, 0))) AS DOUBLE) / count(*) / 1e9 AS new_per_million
FROM (
  SELECT unit, tool_version, type_name, fields, old_e15, new_e15,
    CAST(round(1e6 * ln(new_e15 / old_e15)) AS BIGINT) AS micro
  FROM (
    SELECT unit, tool_version, type_name, fields, host,
      CAST(sum(CASE WHEN build = :old THEN rate_e15 END) AS DOUBLE)
        / count(DISTINCT CASE WHEN build = :old THEN run END) AS old_e15,
      CAST(sum(CASE WHEN build = :new THEN rate_e15 END) AS DOUBLE)
        / count(DISTINCT CASE WHEN build = :new THEN run END) AS new_e15
    FROM lines WHERE build IN (:old, :new) AND run_accesses > 0 AND transfers > 0
    GROUP BY unit, tool_version, type_name, fields, host
  ) of_host
  WHERE old_e15 > 0 AND new_e15 > 0
) both_builds
GROUP BY unit, tool_version, type_name, fields
HAVING count(*) >= 3
ORDER BY mean_log DESC, unit, tool_version NULLS LAST, type_name NULLS LAST, fields
