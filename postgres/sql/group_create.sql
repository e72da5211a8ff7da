WITH made AS (
    INSERT INTO {groups} (stream_id, name, partitions, max_attempts, ordering, created_at)
    VALUES ($1::bigint, $2::text, $3::integer[], $4::integer, $5::text,
            coalesce(to_timestamp($6::bigint / 1000000) + ($6::bigint % 1000000) * interval '1 microsecond', clock_timestamp()))
    ON CONFLICT (stream_id, name) DO NOTHING
    RETURNING id
)
INSERT INTO {ledgers} (group_id, partition, version, cursor, frontier, due, held, start, ledger)
SELECT made.id, l.partition, 0, l.cursor, l.cursor, $7::bigint, $8::bigint, l.cursor, l.ledger
FROM made, unnest($3::integer[], $9::bigint[], $10::bytea[]) AS l(partition, cursor, ledger)
