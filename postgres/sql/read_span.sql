SELECT e.sequence, e.ts, e.partition, e.id, e.key, e.type, e.metadata, e.payload
FROM {events} e
WHERE e.stream_id = $1::bigint AND e.partition = $2::integer AND e.sequence BETWEEN $3::bigint AND $4::bigint
ORDER BY e.sequence
