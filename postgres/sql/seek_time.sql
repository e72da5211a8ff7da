SELECT e.sequence FROM {events} e
WHERE e.stream_id = $1::bigint AND e.partition = $2::integer AND e.ts >= $3::timestamptz
ORDER BY e.sequence LIMIT 1
