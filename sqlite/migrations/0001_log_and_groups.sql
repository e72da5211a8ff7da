-- Every place in every log is one integer, log << 40 | sequence, so that a partition's events are neighbours in the
-- table itself, in order. A stream's partitions are consecutive logs, so a place also sorts by partition and sequence.
-- Times are microseconds since 1970, UTC.

CREATE TABLE {schema} (
  version    INTEGER PRIMARY KEY,
  applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE TABLE {streams} (
  id         INTEGER PRIMARY KEY,
  name       TEXT NOT NULL UNIQUE,
  partitions INTEGER NOT NULL,
  first_log  INTEGER NOT NULL UNIQUE,
  signals    INTEGER NOT NULL DEFAULT 0, -- goes up when deliveries become available again
  created_at INTEGER NOT NULL
);

CREATE TABLE {partitions} (
  log       INTEGER PRIMARY KEY,
  stream_id INTEGER NOT NULL,
  partition INTEGER NOT NULL,
  high      INTEGER NOT NULL DEFAULT 0, -- the last sequence
  UNIQUE (stream_id, partition)
);

CREATE TABLE {events} (
  place     INTEGER PRIMARY KEY,
  stream_id INTEGER NOT NULL,
  log       INTEGER NOT NULL,
  id        TEXT NOT NULL,
  timestamp INTEGER NOT NULL,
  key       TEXT NOT NULL,
  type      TEXT NOT NULL,
  metadata  TEXT, -- a JSON object, or NULL if there is none
  payload   TEXT NOT NULL
);

CREATE UNIQUE INDEX {events_by_id} ON {events} (id, log);

CREATE INDEX {events_by_time} ON {events} (stream_id, timestamp);

CREATE TABLE {groups} (
  id           INTEGER PRIMARY KEY,
  stream_id    INTEGER NOT NULL,
  name         TEXT NOT NULL,
  max_attempts INTEGER NOT NULL,
  ordering     TEXT NOT NULL,
  created_at   INTEGER NOT NULL,
  UNIQUE (stream_id, name)
);

CREATE TABLE {ledgers} (
  group_id  INTEGER NOT NULL,
  partition INTEGER NOT NULL,
  log       INTEGER NOT NULL,
  start     INTEGER NOT NULL, -- the cursor that the group was created with
  revision  INTEGER NOT NULL, -- random, another one with each change
  cursor    INTEGER NOT NULL, -- of the state, for SQL to see
  due       INTEGER NOT NULL, -- when something in the state is due next
  state     BLOB NOT NULL,
  PRIMARY KEY (group_id, partition)
) WITHOUT ROWID;

CREATE TABLE {dead_letters} (
  group_id         INTEGER NOT NULL,
  place            INTEGER NOT NULL,
  attempts         INTEGER NOT NULL,
  reason           TEXT NOT NULL,
  dead_lettered_at INTEGER NOT NULL,
  PRIMARY KEY (group_id, place)
) WITHOUT ROWID;

-- The log and the dead letters as people read them.

CREATE VIEW {event_log} AS
  SELECT s.name AS stream, p.partition, e.place & 1099511627775 AS sequence,
         e.id, e.timestamp, e.key, e.type, e.metadata, e.payload
    FROM {events} e
    JOIN {partitions} p ON p.log = e.log
    JOIN {streams} s ON s.id = e.stream_id;

CREATE VIEW {dead_letter_log} AS
  SELECT s.name AS stream, g.name AS consumer_group, p.partition, d.place & 1099511627775 AS sequence,
         e.id, d.attempts, d.reason, d.dead_lettered_at, e.payload
    FROM {dead_letters} d
    JOIN {groups} g ON g.id = d.group_id
    JOIN {events} e ON e.place = d.place
    JOIN {partitions} p ON p.log = e.log
    JOIN {streams} s ON s.id = e.stream_id;

INSERT INTO {schema} (version) VALUES (1);
