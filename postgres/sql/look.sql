SELECT set_config('enable_seqscan', 'off', true), EXISTS (SELECT FROM {pending} w WHERE w.stream_id = s.id)
FROM {streams} s WHERE s.id = $1::bigint AND s.name = $2::text
