WITH raised AS (
    UPDATE {partitions} p SET high = p.high + c.events
    FROM unnest($2::integer[], $3::bigint[], $4::bigint[]) AS c(partition, events, expected)
    WHERE p.stream_id = $1::bigint AND p.partition = c.partition AND (c.expected < 0 OR p.high = c.expected)
    RETURNING p.partition, p.high - c.events AS base
), placed AS (
    INSERT INTO {events} (stream_id, sequence, ts, partition, id, key, type, metadata, payload)
    SELECT $1::bigint, r.base + i.place, i.ts, i.partition, i.id, i.key, i.type, i.metadata::jsonb, i.payload::jsonb
    FROM unnest($5::timestamptz[], $6::integer[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::bigint[])
         AS i(ts, partition, id, key, type, metadata, payload, place)
    JOIN raised r ON r.partition = i.partition
)
SELECT partition, base FROM raised
