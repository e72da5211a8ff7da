INSERT INTO {pending} (stream_id, ts, partition, id, key, type, metadata, payload)
SELECT $1::bigint, i.ts, i.partition, i.id, i.key, i.type, i.metadata::jsonb, i.payload::jsonb
FROM unnest($2::timestamptz[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
     WITH ORDINALITY AS i(ts, partition, id, key, type, metadata, payload, n)
ORDER BY i.n
