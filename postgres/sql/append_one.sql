WITH raised AS (
    UPDATE {partitions} p SET high = p.high + $3::bigint
    WHERE p.stream_id = $1::bigint AND p.partition = $2::integer AND ($4::bigint < 0 OR p.high = $4::bigint)
    RETURNING p.partition, p.high - $3::bigint AS base
), placed AS (
    INSERT INTO {events} (stream_id, sequence, ts, partition, id, key, type, metadata, payload)
    SELECT $1::bigint, r.base + i.place, i.ts, r.partition, i.id, coalesce(i.key, $8::text), coalesce(i.type, $10::text),
           i.metadata::jsonb, i.payload::jsonb
    FROM raised r
    CROSS JOIN unnest($5::timestamptz[], $6::text[], $7::text[], $9::text[], $11::text[], $12::text[])
         WITH ORDINALITY AS i(ts, id, key, type, metadata, payload, place)
)
SELECT partition, base FROM raised
