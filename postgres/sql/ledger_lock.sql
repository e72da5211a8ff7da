SELECT l.partition, l.version, p.high, l.ledger
FROM {ledgers} l
JOIN {partitions} p ON p.stream_id = $1::bigint AND p.partition = l.partition
WHERE l.group_id = $2::bigint AND l.partition = ANY ($3::integer[])
ORDER BY l.partition
FOR UPDATE OF l
