-- name: schema-there
SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?;

-- name: schema-version
SELECT coalesce(max(version), 0) FROM {schema};

-- name: ping
SELECT 1 FROM sqlite_master LIMIT 1;
