SELECT s.id, s.partitions, EXISTS (SELECT FROM {pending} w WHERE w.stream_id = s.id)
FROM {streams} s WHERE s.name = $1::text
