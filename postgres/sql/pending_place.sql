SELECT {place_pending}($1::bigint)
