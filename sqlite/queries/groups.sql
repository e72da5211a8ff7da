-- name: group
SELECT id, max_attempts, ordering, created_at FROM {groups} WHERE stream_id = ? AND name = ?;

-- name: group-partitions
SELECT partition FROM {ledgers} WHERE group_id = ? ORDER BY partition;

-- name: groups
SELECT name FROM {groups} WHERE stream_id = ? ORDER BY name;

-- name: create-group
INSERT INTO {groups} (stream_id, name, max_attempts, ordering, created_at) VALUES (?, ?, ?, ?, ?) RETURNING id;

-- name: create-ledger
INSERT INTO {ledgers} (group_id, partition, log, start, revision, cursor, due, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: ledger
SELECT revision, CASE WHEN revision = ? THEN NULL ELSE state END FROM {ledgers} WHERE group_id = ? AND partition = ?;

-- name: set-ledger
UPDATE {ledgers} SET revision = ?, cursor = ?, due = ?, state = ? WHERE group_id = ? AND partition = ?;

-- name: ledgers
SELECT l.partition, l.state, p.high FROM {ledgers} l JOIN {partitions} p ON p.log = l.log WHERE l.group_id = ? ORDER BY l.partition;

-- name: due
SELECT l.partition FROM {ledgers} l JOIN {partitions} p ON p.log = l.log WHERE l.group_id = ? AND (l.due <= ? OR l.cursor < p.high);

-- name: bury
INSERT OR REPLACE INTO {dead_letters} (group_id, place, attempts, reason, dead_lettered_at) VALUES (?, ?, ?, ?, ?);

-- name: exhume
DELETE FROM {dead_letters} WHERE group_id = ? AND place >= ? AND place <= ?;

-- name: count-dead
SELECT count(*) FROM {dead_letters} WHERE group_id = ?;

-- name: dead-letters
SELECT e.place, e.id, e.timestamp, e.key, e.type, e.metadata, e.payload, d.attempts, d.reason, d.dead_lettered_at
  FROM {dead_letters} d JOIN {events} e ON e.place = d.place
 WHERE d.group_id = ? AND d.place > ? AND d.place <= ? ORDER BY d.place LIMIT ?;

-- name: starts
SELECT partition, start FROM {ledgers} WHERE group_id = ?;
