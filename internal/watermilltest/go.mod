module github.com/rheo-go/rheo/internal/watermilltest

go 1.26.0

require (
	github.com/ThreeDotsLabs/watermill v1.5.1
	github.com/jackc/pgx/v5 v5.13.0
	github.com/mattn/go-sqlite3 v1.14.53
	github.com/redis/go-redis/v9 v9.22.0
	github.com/rheo-go/rheo v0.0.0
	github.com/rheo-go/rheo/embedded v0.0.0-00010101000000-000000000000
	github.com/rheo-go/rheo/postgres v0.0.0-00010101000000-000000000000
	github.com/rheo-go/rheo/rheowatermill v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/lithammer/shortuuid/v3 v3.0.7 // indirect
	github.com/oklog/ulid v1.3.1 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/rheo-go/rheo/redis v0.0.0
	github.com/rogpeppe/go-internal v1.6.1 // indirect
	github.com/stretchr/testify v1.11.1 // indirect
	go.etcd.io/bbolt v1.5.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.45.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace github.com/rheo-go/rheo => ../../

replace github.com/rheo-go/rheo/embedded => ../../embedded

replace github.com/rheo-go/rheo/postgres => ../../postgres

replace github.com/rheo-go/rheo/rheowatermill => ../../rheowatermill

replace github.com/rheo-go/rheo/redis => ../../redis
