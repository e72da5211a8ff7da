WITH made AS (
    INSERT INTO {streams} (name, partitions, created_at)
    VALUES ($1::text, $2::integer, coalesce(to_timestamp($3::bigint / 1000000) + ($3::bigint % 1000000) * interval '1 microsecond', clock_timestamp()))
    ON CONFLICT (name) DO NOTHING
    RETURNING id
)
INSERT INTO {partitions} (stream_id, partition)
SELECT made.id, n FROM made, generate_series(0, $2::integer - 1) AS n
