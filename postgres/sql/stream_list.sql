SELECT s.name, s.created_at, array_agg(p.high ORDER BY p.partition), EXISTS (SELECT FROM {pending} w WHERE w.stream_id = s.id), s.id
FROM {streams} s JOIN {partitions} p ON p.stream_id = s.id
WHERE $1::text IS NULL OR s.name = $1::text
GROUP BY s.id ORDER BY s.name
