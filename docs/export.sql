-- Queries over the tables of `pg_walfpi export`: see export.md. A test runs each; `-- name:` begins one.

-- name: setup
-- Views of the Parquet files of one export.
CREATE VIEW records AS SELECT * FROM read_parquet('wal/records/**/*.parquet', hive_partitioning = true);
CREATE VIEW blocks AS SELECT * FROM read_parquet('wal/blocks/**/*.parquet', hive_partitioning = true);
CREATE VIEW images AS SELECT * FROM read_parquet('wal/images/**/*.parquet', hive_partitioning = true);
-- By block: with the records that touch none.
CREATE VIEW touched AS
  SELECT *, (stored_bytes IS NOT NULL)::INT AS fpi_count, coalesce(stored_bytes, 0) AS fpi_bytes,
    coalesce(raw_bytes, 0) AS fpi_raw_bytes
  FROM blocks
  UNION ALL BY NAME
  SELECT lsn, record_bytes, 0 AS fpi_count, 0 AS fpi_bytes, 0 AS fpi_raw_bytes FROM records WHERE blocks = 0;
-- By image: with the records that have none.
CREATE VIEW pictured AS
  SELECT *, 1 AS fpi_count, stored_bytes AS fpi_bytes, raw_bytes AS fpi_raw_bytes FROM images
  UNION ALL BY NAME
  SELECT lsn, record_bytes, 0 AS fpi_count, 0 AS fpi_bytes, 0 AS fpi_raw_bytes FROM records WHERE fpi_count = 0;

-- name: rmgr
SELECT rmgr, count(*) AS records, sum(record_bytes) AS record_bytes, sum(fpi_count) AS fpi_count,
  sum(fpi_bytes) AS fpi_bytes, sum(fpi_raw_bytes) AS fpi_raw_bytes
FROM records GROUP BY ALL ORDER BY ALL;

-- name: record
SELECT rmgr, record, count(*) AS records, sum(record_bytes) AS record_bytes, sum(fpi_count) AS fpi_count,
  sum(fpi_bytes) AS fpi_bytes, sum(fpi_raw_bytes) AS fpi_raw_bytes
FROM records GROUP BY ALL ORDER BY ALL;

-- name: segment
SELECT segment, tli AS timeline, count(*) AS records, sum(record_bytes) AS record_bytes, sum(fpi_count) AS fpi_count,
  sum(fpi_bytes) AS fpi_bytes, sum(fpi_raw_bytes) AS fpi_raw_bytes
FROM records GROUP BY ALL ORDER BY ALL;

-- name: checkpoint
SELECT printf('%X/%08X', interval_lsn >> 32, interval_lsn & 4294967295) AS start_lsn,
  printf('%X/%08X', redo_lsn >> 32, redo_lsn & 4294967295) AS redo_lsn,
  count(*) AS records, sum(record_bytes) AS record_bytes, sum(fpi_count) AS fpi_count,
  sum(fpi_bytes) AS fpi_bytes, sum(fpi_raw_bytes) AS fpi_raw_bytes
FROM records GROUP BY ALL ORDER BY ALL;

-- name: relation
-- A record counts once in each group of blocks that it touches, so `records` adds up to more than there are.
SELECT spc_oid, db_oid, rel_number, count(DISTINCT lsn) AS records, sum(record_bytes) AS record_bytes,
  sum(fpi_count) AS fpi_count, sum(fpi_bytes) AS fpi_bytes, sum(fpi_raw_bytes) AS fpi_raw_bytes
FROM touched GROUP BY ALL ORDER BY ALL;

-- name: fork
SELECT fork, count(DISTINCT lsn) AS records, sum(record_bytes) AS record_bytes,
  sum(fpi_count) AS fpi_count, sum(fpi_bytes) AS fpi_bytes, sum(fpi_raw_bytes) AS fpi_raw_bytes
FROM touched GROUP BY ALL ORDER BY ALL;

-- name: block
SELECT spc_oid, db_oid, rel_number, fork, block, count(DISTINCT lsn) AS records, sum(record_bytes) AS record_bytes,
  sum(fpi_count) AS fpi_count, sum(fpi_bytes) AS fpi_bytes, sum(fpi_raw_bytes) AS fpi_raw_bytes
FROM touched GROUP BY ALL ORDER BY ALL;

-- name: database
SELECT db_oid, count(DISTINCT lsn) AS records, sum(record_bytes) AS record_bytes,
  sum(fpi_count) AS fpi_count, sum(fpi_bytes) AS fpi_bytes, sum(fpi_raw_bytes) AS fpi_raw_bytes
FROM touched GROUP BY ALL ORDER BY ALL;

-- name: tablespace
SELECT spc_oid, count(DISTINCT lsn) AS records, sum(record_bytes) AS record_bytes,
  sum(fpi_count) AS fpi_count, sum(fpi_bytes) AS fpi_bytes, sum(fpi_raw_bytes) AS fpi_raw_bytes
FROM touched GROUP BY ALL ORDER BY ALL;

-- name: compression
SELECT compression, count(DISTINCT lsn) AS records, sum(record_bytes) AS record_bytes,
  sum(fpi_count) AS fpi_count, sum(fpi_bytes) AS fpi_bytes, sum(fpi_raw_bytes) AS fpi_raw_bytes
FROM pictured GROUP BY ALL ORDER BY ALL;

-- name: cause
SELECT cause, count(DISTINCT lsn) AS records, sum(record_bytes) AS record_bytes,
  sum(fpi_count) AS fpi_count, sum(fpi_bytes) AS fpi_bytes, sum(fpi_raw_bytes) AS fpi_raw_bytes
FROM pictured GROUP BY ALL ORDER BY ALL;

-- name: ndjson
-- Types of NDJSON.
SELECT * FROM read_json('wal/records/**/*.ndjson*', hive_partitioning = true, columns = {
  lsn: 'BIGINT', end_lsn: 'BIGINT', tli: 'BIGINT', segment: 'VARCHAR', rmgr: 'VARCHAR', record: 'VARCHAR', xid: 'BIGINT',
  tot_len: 'BIGINT', record_bytes: 'BIGINT', fpi_count: 'BIGINT', fpi_bytes: 'BIGINT', fpi_raw_bytes: 'BIGINT',
  blocks: 'BIGINT', time_us: 'BIGINT', checkpoint_redo_lsn: 'BIGINT', full_page_writes: 'BOOLEAN', interval_lsn: 'BIGINT', redo_lsn: 'BIGINT'});

-- name: csv
-- Types of CSV: a file may show DuckDB no segment with a letter, and no relation.
SELECT * FROM read_csv('wal/records/**/*.csv*', hive_partitioning = true, types = {
  segment: 'VARCHAR', time_us: 'BIGINT', checkpoint_redo_lsn: 'BIGINT', full_page_writes: 'BOOLEAN', interval_lsn: 'BIGINT', redo_lsn: 'BIGINT'});

-- name: example
-- Blocks with the most images within ten seconds of WAL time after a redo point. Only commits have times, so each image gets the time of the next commit.
SELECT i.rel_number, i.block, count(*) AS images
FROM images i
ASOF JOIN (SELECT lsn, time_us FROM records WHERE time_us IS NOT NULL) r ON i.lsn <= r.lsn
ASOF JOIN (SELECT lsn, time_us FROM records WHERE time_us IS NOT NULL) b ON i.redo_lsn <= b.lsn
WHERE r.time_us - b.time_us < 10000000
GROUP BY ALL ORDER BY images DESC, i.rel_number, i.block LIMIT 10;

-- name: jobs-check
-- Of an export by jobs: no row may come out.
WITH m AS (SELECT own.start_lsn AS a, own.end_lsn AS b, exit_status, totals.system_identifier AS system
  FROM read_json('wal/job=*/records/_manifest.json', columns = {own: 'STRUCT(start_lsn BIGINT, end_lsn BIGINT)',
    exit_status: 'BIGINT', totals: 'STRUCT(system_identifier VARCHAR)'}))
SELECT a, 'not whole' AS problem FROM m WHERE exit_status > 1
UNION ALL SELECT a, 'other cluster' FROM m WHERE system <> (SELECT min(system) FROM m)
UNION ALL SELECT b, 'hole or overlap' FROM (SELECT *, lead(a) OVER (ORDER BY a) AS next FROM m) WHERE next <> b;

-- name: jobs-setup
-- Tables of all jobs, and the checkpoint intervals that they know.
CREATE VIEW records AS SELECT * FROM read_parquet('wal/job=*/records/**/*.parquet', hive_partitioning = true);
CREATE VIEW blocks AS SELECT * FROM read_parquet('wal/job=*/blocks/**/*.parquet', hive_partitioning = true);
CREATE VIEW images AS SELECT * FROM read_parquet('wal/job=*/images/**/*.parquet', hive_partitioning = true);
CREATE TABLE seen AS
  SELECT filename AS job, read_start_lsn, unnest(intervals, recursive := true)
  FROM read_json('wal/job=*/records/_manifest.json', filename = true, columns = {read_start_lsn: 'BIGINT',
    intervals: 'STRUCT(start_lsn BIGINT, redo_lsn BIGINT, is_hidden BOOLEAN)[]'});

-- name: jobs-views
-- Redo points of all jobs: those in records, and those that only images show, unless a record contains one in the same place.
CREATE OR REPLACE TEMP VIEW redos AS
  WITH known AS (
    SELECT redo_lsn AS redo FROM seen WHERE redo_lsn IS NOT NULL UNION SELECT checkpoint_redo_lsn FROM records WHERE checkpoint_redo_lsn IS NOT NULL),
  shown AS (SELECT is_hidden, start_lsn AS redo,
    greatest(read_start_lsn, coalesce(lag(start_lsn) OVER (PARTITION BY job ORDER BY start_lsn), 0)) AS before FROM seen),
  found AS (SELECT 0 AS redo, NULL AS redo_lsn UNION ALL SELECT redo, redo FROM known
    UNION ALL SELECT DISTINCT redo, NULL FROM shown s
      WHERE is_hidden AND NOT EXISTS (SELECT 1 FROM known k WHERE k.redo <= s.redo AND k.redo > s.before))
  SELECT redo, redo_lsn, coalesce(lead(redo) OVER (ORDER BY redo), 9223372036854775807) AS next FROM found;
CREATE OR REPLACE TEMP VIEW touched AS
  SELECT lsn, spc_oid, db_oid, rel_number, fork, block, record_bytes, CASE WHEN stored_bytes IS NULL THEN 0 ELSE 1 END AS fpi_count,
    coalesce(stored_bytes, 0) AS fpi_bytes, coalesce(raw_bytes, 0) AS fpi_raw_bytes
  FROM blocks
  UNION ALL SELECT lsn, NULL, NULL, NULL, NULL, NULL, record_bytes, 0, 0, 0 FROM records WHERE blocks = 0;

-- name: jobs-checkpoint
SELECT printf('%X/%08X', d.redo >> 32, d.redo & 4294967295) AS start_lsn,
  CASE WHEN d.redo_lsn IS NOT NULL THEN printf('%X/%08X', d.redo_lsn >> 32, d.redo_lsn & 4294967295) END AS redo_lsn,
  count(*) AS records, sum(record_bytes) AS record_bytes, sum(fpi_count) AS fpi_count,
  sum(fpi_bytes) AS fpi_bytes, sum(fpi_raw_bytes) AS fpi_raw_bytes
FROM records r JOIN redos d ON r.lsn >= d.redo AND r.lsn < d.next GROUP BY ALL ORDER BY ALL;

-- name: jobs-cause
-- Causes of images during base backups and under full_page_writes = off are not separated from others here.
WITH ev AS (SELECT b.*, coalesce(b.stored_bytes IS NOT NULL AND b.applied, false) AS imaged, d.redo,
    (rmgr = 'XLOG' AND record = 'FPI') OR (rmgr = 'Gin' AND (record = 'VACUUM_PAGE' OR record = 'SPLIT' AND block_id < 3))
      OR (rmgr = 'Hash' AND record = 'SPLIT_PAGE') AS always
  FROM blocks b JOIN redos d ON b.lsn >= d.redo AND b.lsn < d.next
  WHERE NOT (rmgr = 'Hash' AND record IN ('MOVE_PAGE_CONTENTS', 'SQUEEZE_PAGE', 'DELETE') AND block_id = 0)),
w AS (SELECT *, lead(NOT (imaged OR will_init OR always)) OVER p AS next_plain, sum(imaged::INT) OVER q AS nth FROM ev
  WINDOW p AS (PARTITION BY spc_oid, db_oid, rel_number, fork, block ORDER BY lsn, block_id),
    q AS (PARTITION BY spc_oid, db_oid, rel_number, fork, block, redo ORDER BY lsn, block_id ROWS UNBOUNDED PRECEDING)),
seen AS (SELECT lsn, block_id, CASE WHEN NOT imaged THEN 'consistency_check'
    WHEN rmgr = 'XLOG' AND record = 'FPI' AND fork IN ('fsm', 'vm')
      AND xid IN (SELECT xid FROM records WHERE rmgr = 'Storage' AND record = 'TRUNCATE') THEN 'map_truncation'
    WHEN rmgr = 'XLOG' AND record = 'FPI' THEN CASE WHEN nth = 1 THEN 'new_page' ELSE 'repeated_new_page' END
    WHEN always THEN CASE WHEN nth = 1 THEN 'forced' ELSE 'repeated_forced' END
    WHEN record = 'FPI_FOR_HINT' THEN
      CASE WHEN nth > 1 THEN 'repeated_hint' WHEN next_plain THEN 'hint_then_changed' ELSE 'hint_only' END
    WHEN nth = 1 THEN 'first_touch' ELSE 'repeated_unknown' END AS cause FROM w WHERE stored_bytes IS NOT NULL)
SELECT t.cause, count(DISTINCT i.lsn) AS records, sum(i.record_bytes) AS record_bytes, count(*) AS fpi_count,
  sum(i.stored_bytes) AS fpi_bytes, sum(i.raw_bytes) AS fpi_raw_bytes
FROM images i JOIN seen t USING (lsn, block_id) GROUP BY ALL ORDER BY ALL;
