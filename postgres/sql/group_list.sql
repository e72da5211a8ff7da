SELECT g.name FROM {groups} g WHERE g.stream_id = $1::bigint ORDER BY g.name
