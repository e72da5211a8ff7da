SELECT p.partition, p.high FROM {partitions} p WHERE p.stream_id = $1::bigint ORDER BY p.partition
