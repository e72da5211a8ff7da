module github.com/rheo-go/rheo/examples

go 1.25.0

require (
	github.com/ThreeDotsLabs/watermill v1.5.1
	github.com/jackc/pgx/v5 v5.13.0
	github.com/redis/go-redis/v9 v9.22.0
	github.com/rheo-go/rheo v0.0.0
	github.com/rheo-go/rheo/embedded v0.0.0
	github.com/rheo-go/rheo/postgres v0.0.0
	github.com/rheo-go/rheo/redis v0.0.0
	github.com/rheo-go/rheo/rheosuture v0.0.0
	github.com/rheo-go/rheo/rheowatermill v0.0.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sync v0.22.0
)

require (
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/lithammer/shortuuid/v3 v3.0.7 // indirect
	github.com/oklog/ulid v1.3.1 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/sony/gobreaker v1.0.0 // indirect
	github.com/thejerf/suture/v4 v4.0.6 // indirect
	go.etcd.io/bbolt v1.5.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/sys v0.45.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace (
	github.com/rheo-go/rheo => ..
	github.com/rheo-go/rheo/embedded => ../embedded
	github.com/rheo-go/rheo/postgres => ../postgres
	github.com/rheo-go/rheo/redis => ../redis
	github.com/rheo-go/rheo/rheosuture => ../rheosuture
	github.com/rheo-go/rheo/rheowatermill => ../rheowatermill
)
