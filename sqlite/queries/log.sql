-- name: stream
SELECT id, name, partitions, first_log, created_at FROM {streams} WHERE name = ?;

-- name: streams
SELECT id, name, partitions, first_log, created_at FROM {streams} ORDER BY name;

-- name: highs
SELECT high FROM {partitions} WHERE log >= ? AND log < ? ORDER BY log;

-- name: next-log
SELECT coalesce(max(first_log + partitions), 1) FROM {streams};

-- name: create-stream
INSERT INTO {streams} (name, partitions, first_log, created_at) VALUES (?, ?, ?, ?) RETURNING id;

-- name: create-partition
INSERT INTO {partitions} (log, stream_id, partition) VALUES (?, ?, ?);

-- name: high
SELECT high FROM {partitions} WHERE log = ?;

-- name: set-high
UPDATE {partitions} SET high = ? WHERE log = ?;

-- name: place-of-id
SELECT place FROM {events} WHERE id = ? AND log = ?;

-- name: insert-events
INSERT INTO {events} (place, stream_id, log, id, timestamp, key, type, metadata, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id, log) DO NOTHING;

-- name: delete-events
DELETE FROM {events} WHERE place > ? AND place < ?;

-- name: read
SELECT place, id, timestamp, key, type, metadata, payload FROM {events} WHERE place > ? AND place <= ? ORDER BY place LIMIT ?;

-- name: first-since
SELECT place >> 40, min(place) FROM {events} WHERE stream_id = ? AND timestamp >= ? GROUP BY 1;

-- name: signal
UPDATE {streams} SET signals = signals + 1 WHERE id = ?;

-- name: hint
SELECT s.signals + coalesce(sum(p.high), 0) FROM {streams} s JOIN {partitions} p ON p.stream_id = s.id WHERE s.name = ?;

-- name: data-version
PRAGMA data_version;

-- name: events
SELECT place, id, timestamp, key, type, metadata, payload FROM {events} WHERE

-- name: window
SELECT min(place), max(place), count(*)
  FROM (SELECT place FROM {events} WHERE stream_id = ? AND timestamp >= ? AND timestamp < ? LIMIT ?)
 GROUP BY place >> 40;
