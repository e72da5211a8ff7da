SELECT p.partition, p.high FROM {partitions} p
WHERE p.stream_id = $1::bigint AND p.partition = ANY ($2::integer[])
ORDER BY p.partition FOR UPDATE
