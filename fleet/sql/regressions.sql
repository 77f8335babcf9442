-- A field between two builds, on hosts that ran both: the mean over hosts of the logarithm of new over old, where a
-- host's value is the mean over its runs of transfers of an access, all rows of a field in a run together.
-- Hosts are the samples, whatever number of runs each has. Rates and logarithms are in double precision. They are added
-- as whole numbers that are as fine (10^-15 of a logarithm), so that no order of adding changes a digit.
-- The caller makes intervals of n, mean and standard deviation, and corrects for the number of rows.
SELECT unit, tool_version, type_name, fields, count(*) AS hosts, max(mean_log) AS mean_log,
  sqrt(CAST(sum(CAST(round(1e24 * (log_ratio - mean_log) * (log_ratio - mean_log)) AS DECIMAL(38, 0))) AS DOUBLE)
    / (count(*) - 1)) / 1e12 AS sd_log,
  CAST(sum(CAST(round(1e27 * old_rate) AS DECIMAL(38, 0))) AS DOUBLE) / count(*) / 1e21 AS old_per_million,
  CAST(sum(CAST(round(1e27 * new_rate) AS DECIMAL(38, 0))) AS DOUBLE) / count(*) / 1e21 AS new_per_million
FROM (
  SELECT unit, tool_version, type_name, fields, old_rate, new_rate, log_ratio,
    CAST(sum(CAST(round(1e15 * log_ratio) AS DECIMAL(38, 0)))
      OVER (PARTITION BY unit, tool_version, type_name, fields) AS DOUBLE)
      / count(*) OVER (PARTITION BY unit, tool_version, type_name, fields) / 1e15 AS mean_log
  FROM (
    SELECT unit, tool_version, type_name, fields, old_rate, new_rate, ln(new_rate / old_rate) AS log_ratio
    FROM (
      SELECT unit, tool_version, type_name, fields, host,
        CAST(sum(CASE WHEN build = :old THEN rate_e27 END) AS DOUBLE)
          / count(CASE WHEN build = :old THEN run END) / 1e27 AS old_rate,
        CAST(sum(CASE WHEN build = :new THEN rate_e27 END) AS DOUBLE)
          / count(CASE WHEN build = :new THEN run END) / 1e27 AS new_rate
      FROM (
        SELECT unit, tool_version, type_name, fields, host, build, run,
          CAST(round(1e15 * CAST(sum(CAST(round(1e12 * transfers) AS DECIMAL(38, 0))) AS DOUBLE)
            / CAST(max(run_accesses) AS DOUBLE)) AS DECIMAL(38, 0)) AS rate_e27
        FROM lines WHERE build IN (:old, :new) AND run_accesses > 0 AND transfers > 0
        GROUP BY unit, tool_version, type_name, fields, host, build, run
      ) of_run
      GROUP BY unit, tool_version, type_name, fields, host
    ) of_host
    WHERE old_rate > 0 AND new_rate > 0
  ) both_builds
) field
GROUP BY unit, tool_version, type_name, fields
HAVING count(*) >= 3
ORDER BY mean_log DESC, unit, tool_version NULLS LAST, type_name NULLS LAST, fields
