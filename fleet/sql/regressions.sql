-- A field between two builds, on hosts that ran both: the mean over hosts of the logarithm of new over old, where a
-- host's value is its mean transfers of a million accesses. Hosts are the samples, whatever number of runs each has.
-- The caller makes intervals of n, mean and standard deviation, and corrects for the number of rows.
SELECT unit, tool_version, type_name, fields, count(*) AS hosts, avg(ln(new_rate / old_rate)) AS mean_log,
  stddev_samp(ln(new_rate / old_rate)) AS sd_log, avg(old_rate) AS old_per_million, avg(new_rate) AS new_per_million
FROM (
  SELECT o.unit, o.tool_version, o.type_name, o.fields, o.host, o.rate AS old_rate, n.rate AS new_rate
  FROM (
    SELECT unit, tool_version, type_name, fields, host, avg(1000000.0 * transfers / run_accesses) AS rate
    FROM lines WHERE build = :old AND run_accesses > 0 AND transfers > 0
    GROUP BY unit, tool_version, type_name, fields, host
  ) o
  JOIN (
    SELECT unit, tool_version, type_name, fields, host, avg(1000000.0 * transfers / run_accesses) AS rate
    FROM lines WHERE build = :new AND run_accesses > 0 AND transfers > 0
    GROUP BY unit, tool_version, type_name, fields, host
  ) n ON o.unit = n.unit AND o.tool_version = n.tool_version AND o.fields = n.fields AND o.host = n.host
    AND coalesce(o.type_name, '') = coalesce(n.type_name, '')
) both_builds
GROUP BY unit, tool_version, type_name, fields
HAVING count(*) >= 3
ORDER BY mean_log DESC, unit, tool_version, type_name, fields
