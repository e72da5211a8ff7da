SELECT e.sequence, e.ts, e.partition, e.id, e.key, e.type, e.metadata, e.payload, d.attempts, d.reason, d.rejected_at
FROM {rejected} d
JOIN {events} e ON e.stream_id = $1::bigint AND e.partition = d.partition AND e.sequence = d.sequence
WHERE d.group_id = $2::bigint AND d.partition = $3::integer AND d.sequence > $4::bigint
ORDER BY d.sequence LIMIT $5::bigint
