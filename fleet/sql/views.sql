-- What every query reads. `files_KIND` are the Parquet files of one kind with their folders day, host, build.
-- A run counts once, whatever was exported twice; rows of an export that was cut off before its run row do not count.
-- One statement per view; both engines take them as they are.
CREATE OR REPLACE TEMPORARY VIEW runs AS
SELECT * FROM (
  SELECT r.*, row_number() OVER (PARTITION BY run ORDER BY day, host, build) AS copy FROM files_runs r
  WHERE run IS NOT NULL
) numbered WHERE copy = 1;

CREATE OR REPLACE TEMPORARY VIEW lines AS
SELECT l.run, l.day, l.host, l.build, l.exe, l.type_name, l.fields, l.field_a, l.field_b, l.class, l.unit,
  l.tool_version, l.phase_bytes, l.transfers, l.removable_share, l.threads, l.code_a, l.code_b, r.cpu_model, r.cpus,
  r.kernel, r.started_unix_s, r.accesses AS run_accesses
FROM files_lines l JOIN runs r ON l.run = r.run AND l.day = r.day AND l.host = r.host AND l.build = r.build;

CREATE OR REPLACE TEMPORARY VIEW fights AS
SELECT * FROM lines WHERE class = 'a layout helps';

-- What a sweep answered, each task once: a worker that was killed may have left rows without an answer, and two workers
-- may have had the same task.
CREATE OR REPLACE TEMPORARY VIEW answers AS
SELECT * FROM (
  SELECT a.*, row_number() OVER (PARTITION BY task ORDER BY day, host, build, batch) AS copy FROM files_answers a
  WHERE task IS NOT NULL
) numbered WHERE copy = 1;

CREATE OR REPLACE TEMPORARY VIEW checks AS
SELECT c.*, a.plan FROM files_checks c
JOIN answers a ON c.task = a.task AND c.batch = a.batch AND c.day = a.day AND c.host = a.host AND c.build = a.build;

CREATE OR REPLACE TEMPORARY VIEW predictions AS
SELECT p.*, a.plan FROM files_predictions p
JOIN answers a ON p.task = a.task AND p.batch = a.batch AND p.day = a.day AND p.host = a.host AND p.build = a.build;
