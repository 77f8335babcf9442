-- What every query reads. `files_KIND` are the Parquet files of one kind with their folders day, host, build.
-- A run counts once, whatever was exported twice; rows of an export that was cut off before its run row do not count.
-- One statement per view; both engines take them as they are.
CREATE OR REPLACE TEMPORARY VIEW runs AS
SELECT * FROM (
  SELECT r.*, row_number() OVER (PARTITION BY run ORDER BY day, host, build) AS copy FROM files_runs r
  WHERE run IS NOT NULL
) numbered WHERE copy = 1;

-- Whole numbers are summed, so that no order of adding changes a digit: millionths of a transfer. A run of which a
-- part is lost has no rate.
CREATE OR REPLACE TEMPORARY VIEW lines AS
SELECT l.*, CAST(round(1e6 * transfers) AS DECIMAL(38, 0)) AS micro
FROM (
  SELECT l.run, l.day, l.host, l.build, l.exe, l.type_name, l.fields, l.field_a, l.field_b, l.class, l.unit,
    l.tool_version, l.phase_bytes, l.transfers, l.removable_share, l.threads, l.code_a, l.code_b, r.cpu_model, r.cpus,
    r.kernel, r.started_unix_s, CASE WHEN r.problems > 0 THEN NULL ELSE nullif(r.accesses, 0) END AS run_accesses
  FROM files_lines l JOIN runs r ON l.run = r.run AND l.day = r.day AND l.host = r.host AND l.build = r.build
) l;

CREATE OR REPLACE TEMPORARY VIEW fights AS
SELECT * FROM lines WHERE class = 'a layout helps';

-- What a field does in a run that has a rate, its rows (one for each process and each place that allocates) together:
-- once over all phases (by_phase = 0), and once for each.
CREATE OR REPLACE TEMPORARY VIEW fields_of_runs AS
SELECT unit, tool_version, type_name, fields, run, host, cpu_model, phase_bytes, 1 - grouping(phase_bytes) AS by_phase,
  sum(micro) AS micro, max(run_accesses) AS run_accesses
FROM fights WHERE run_accesses > 0
GROUP BY GROUPING SETS ((unit, tool_version, type_name, fields, run, host, cpu_model),
  (unit, tool_version, type_name, fields, run, host, cpu_model, phase_bytes));

-- What a sweep answered, each point once, and how it was last: files may have changed since. A worker that was killed
-- may have left rows without an answer, and two workers may have had the same task. An exported document is a point,
-- whoever exported it. `of_task` is 1 for one of the plans that asked the same.
CREATE OR REPLACE TEMPORARY VIEW answers AS
SELECT n.*, row_number() OVER (
    PARTITION BY task ORDER BY answered_unix_s DESC NULLS LAST, day DESC, host, build, batch) AS of_task
FROM (
  SELECT a.*, row_number() OVER (
      PARTITION BY plan, CASE WHEN plan = 'exported' THEN task ELSE CAST(job AS STRING) END
      ORDER BY answered_unix_s DESC NULLS LAST, day DESC, host, build, batch) AS copy
  FROM files_answers a WHERE task IS NOT NULL
) n WHERE copy = 1;

-- All that was ever answered of rules by any host, older answers too: whether one counts is for the query to say.
CREATE OR REPLACE TEMPORARY VIEW checks AS
SELECT c.*, a.plan, a.answered_unix_s FROM files_checks c
JOIN files_answers a ON c.task = a.task AND c.batch = a.batch AND c.day = a.day AND c.host = a.host
  AND c.build = a.build;

CREATE OR REPLACE TEMPORARY VIEW predictions AS
SELECT p.*, a.plan FROM files_predictions p
JOIN answers a ON p.task = a.task AND p.batch = a.batch AND p.day = a.day AND p.host = a.host AND p.build = a.build
WHERE a.of_task = 1;
