-- A field between two builds, on hosts that ran both: the mean over hosts of the logarithm of new over old, where a
-- host's value is the mean over its runs of transfers of a million accesses, all rows of a field in a run together.
-- Hosts are the samples, whatever number of runs each has.
-- The caller makes intervals of n, mean and standard deviation, and corrects for the number of rows. Sums are of whole
-- numbers (thousandths of a transfer, millionths of a logarithm), so that no order of adding changes a digit.
SELECT unit, tool_version, type_name, fields, count(*) AS hosts,
  CAST(sum(micro) AS DOUBLE) / count(*) / 1e6 AS mean_log,
  sqrt(greatest(0e0, CAST(sum(CAST(micro * micro AS DECIMAL(38, 0))) AS DOUBLE)
    - CAST(sum(micro) AS DOUBLE) * CAST(sum(micro) AS DOUBLE) / count(*)) / (count(*) - 1)) / 1e6 AS sd_log,
  CAST(sum(old_milli) AS DOUBLE) / count(*) / 1e3 AS old_per_million,
  CAST(sum(new_milli) AS DOUBLE) / count(*) / 1e3 AS new_per_million
FROM (
  SELECT o.unit, o.tool_version, o.type_name, o.fields, o.host,
    CAST(round(1e6 * ln(n.rate / o.rate)) AS BIGINT) AS micro,
    CAST(round(o.rate) AS BIGINT) AS old_milli, CAST(round(n.rate) AS BIGINT) AS new_milli
  FROM (
    SELECT unit, tool_version, type_name, fields, host, CAST(sum(milli) AS DOUBLE) / count(*) AS rate
    FROM (
      SELECT unit, tool_version, type_name, fields, host, run,
        sum(CAST(round(1e9 * transfers / run_accesses) AS BIGINT)) AS milli
      FROM lines WHERE build = :old AND run_accesses > 0 AND transfers > 0
      GROUP BY unit, tool_version, type_name, fields, host, run
    ) in_run
    GROUP BY unit, tool_version, type_name, fields, host
  ) o
  JOIN (
    SELECT unit, tool_version, type_name, fields, host, CAST(sum(milli) AS DOUBLE) / count(*) AS rate
    FROM (
      SELECT unit, tool_version, type_name, fields, host, run,
        sum(CAST(round(1e9 * transfers / run_accesses) AS BIGINT)) AS milli
      FROM lines WHERE build = :new AND run_accesses > 0 AND transfers > 0
      GROUP BY unit, tool_version, type_name, fields, host, run
    ) in_run
    GROUP BY unit, tool_version, type_name, fields, host
  ) n ON o.unit = n.unit AND o.tool_version = n.tool_version AND o.fields = n.fields AND o.host = n.host
    AND coalesce(o.type_name, '') = coalesce(n.type_name, '')
  WHERE o.rate > 0 AND n.rate > 0
) both_builds
GROUP BY unit, tool_version, type_name, fields
HAVING count(*) >= 3
ORDER BY mean_log DESC, unit, tool_version NULLS LAST, type_name NULLS LAST, fields
