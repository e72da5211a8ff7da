INSERT INTO {rejected} (group_id, partition, sequence, attempts, reason, rejected_at)
SELECT $1::bigint, $2::integer, n, d.attempts, d.reason,
       coalesce(to_timestamp($4::bigint / 1000000) + ($4::bigint % 1000000) * interval '1 microsecond', clock_timestamp())
FROM unnest($5::bigint[], $6::bigint[], $7::integer[], $8::text[]) AS d(low, high, attempts, reason)
CROSS JOIN LATERAL generate_series(d.low, d.high) AS n
WHERE EXISTS (SELECT FROM {ledgers} l WHERE l.group_id = $1::bigint AND l.partition = $2::integer AND l.version = $3::bigint)
ON CONFLICT (group_id, partition, sequence) DO UPDATE
SET attempts = excluded.attempts, reason = excluded.reason, rejected_at = excluded.rejected_at
