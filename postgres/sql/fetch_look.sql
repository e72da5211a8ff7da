SELECT set_config('enable_seqscan', 'off', true),
       coalesce($3::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),
       EXISTS (SELECT FROM {pending} w WHERE w.stream_id = g.stream_id)
FROM {groups} g WHERE g.id = $1::bigint AND g.name = $2::text
