SELECT e.sequence, e.ts, e.partition, e.id, e.key, e.type, e.metadata, e.payload
FROM {events} e
WHERE e.stream_id = $1::bigint AND e.partition = ANY ($2::integer[]) AND e.id = ANY ($3::text[])
