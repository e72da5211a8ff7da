SELECT set_config('synchronous_commit', CASE WHEN $1::boolean THEN 'off' ELSE current_setting('synchronous_commit') END, true),
       set_config('enable_seqscan', 'off', true)
