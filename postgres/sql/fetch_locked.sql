SELECT l.partition, l.version, p.high, l.ledger
FROM {ledgers} l
JOIN {partitions} p ON p.stream_id = $1::bigint AND p.partition = l.partition
CROSS JOIN (SELECT coalesce($3::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now) t
WHERE l.group_id = $2::bigint AND ($4::integer[] IS NULL OR l.partition = ANY ($4::integer[]))
  AND l.held <= t.now AND (l.cursor < p.high OR l.due <= t.now)
ORDER BY l.partition < $5::integer, l.partition
LIMIT $6::bigint
FOR UPDATE OF l SKIP LOCKED
