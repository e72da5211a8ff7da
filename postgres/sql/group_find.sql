SELECT g.id, g.partitions, g.max_attempts, g.ordering
FROM {groups} g WHERE g.stream_id = $1::bigint AND g.name = $2::text
