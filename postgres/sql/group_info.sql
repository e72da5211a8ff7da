SELECT g.created_at, l.partition, l.ledger, p.high,
       coalesce($2::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),
       e.ts, (SELECT count(*) FROM {rejected} d WHERE d.group_id = l.group_id AND d.partition = l.partition)
FROM {groups} g
JOIN {ledgers} l ON l.group_id = g.id
JOIN {partitions} p ON p.stream_id = g.stream_id AND p.partition = l.partition
LEFT JOIN {events} e ON e.stream_id = g.stream_id AND e.partition = l.partition AND e.sequence = l.frontier + 1
WHERE g.id = $1::bigint
ORDER BY l.partition
