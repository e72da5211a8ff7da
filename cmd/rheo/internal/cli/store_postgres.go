package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/postgres"
)

var postgresOpener = opener{
	open: openPostgres, schema: postgresSchema, indexesPayload: true, code: "backend, err := postgres.New(pool, nil)",
}

// Unless the URL says otherwise.
const (
	postgresConnections = 8
	postgresPatience    = 10 * time.Second // for a connection
)

// postgresStore is a backend with the pool that it is on.
type postgresStore struct {
	*postgres.Backend
	pool *pgxpool.Pool
}

func (s postgresStore) Close() error {
	err := s.Backend.Close()
	s.pool.Close()
	return err
}

func openPostgres(ctx context.Context, r request) (_ rheo.Backend, err error) {
	config, options, err := postgresConfig(r)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	backend, err := postgres.New(pool, options)
	if err != nil {
		pool.Close()
		return nil, err
	}
	store := postgresStore{backend, pool}
	// A consumer waits for a server that is away for a while; one that was never
	// there is a mistake.
	if err := backend.Ping(ctx); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if r.purpose != migrating {
		if err := checkPostgresSchema(ctx, pool, options); err != nil {
			return nil, errors.Join(err, store.Close())
		}
	}
	return store, nil
}

// postgresConfig reads the URL. Our own parameters are taken out of it, since the
// server would not know them.
func postgresConfig(r request) (*pgxpool.Config, *postgres.Options, error) {
	const example = "write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with %%XX for whatever is neither letter nor digit in the password"
	u, err := url.Parse(r.url)
	if err != nil || !strings.HasPrefix(r.location, "//") || u.Fragment != "" { // the error would quote pieces of a password
		return nil, nil, usagef("the store is not a valid URL; " + example)
	}
	query := u.Query()
	options := &postgres.Options{Prefix: query.Get(prefixParameter), PayloadIndex: r.payloadIndex}
	query.Del(prefixParameter)
	switch notify := query.Get("rheo_notify"); notify {
	case "", "on":
	case "off": // as PgBouncer in transaction mode needs it
		options.WithoutNotify = true
	default:
		return nil, nil, usagef("rheo_notify is %q, must be on or off", notify)
	}
	query.Del("rheo_notify")
	for name := range query {
		if strings.HasPrefix(name, "rheo_") {
			return nil, nil, usagef("the store's URL has the parameter %s; there are rheo_prefix and rheo_notify", name)
		}
	}
	place, _, _ := strings.Cut(r.url, "?")
	config, err := pgxpool.ParseConfig(place + "?" + query.Encode())
	if err != nil {
		return nil, nil, usagef("%v", err)
	}
	if !query.Has("pool_max_conns") {
		config.MaxConns = postgresConnections
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = postgresPatience
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "rheo"
	}
	return config, options, nil
}

// applied is how a migration notes that it was applied: its table and version.
var applied = regexp.MustCompile(`INSERT INTO (.+) \(version\) VALUES \((\d+)\);\s*$`)

// checkPostgresSchema refuses a database whose schema is not the one that this
// version works with, before anything is done there. It asks what EnsureSchema
// asks, which would go on to make what is missing.
func checkPostgresSchema(ctx context.Context, pool *pgxpool.Pool, options *postgres.Options) error {
	steps, err := postgres.Migrations(&postgres.Options{Prefix: options.Prefix})
	if err != nil {
		return err
	}
	note := applied.FindStringSubmatch(steps[len(steps)-1].SQL)
	if note == nil {
		return errors.New("the last migration does not note its version")
	}
	table := note[1]
	latest, err := strconv.Atoi(note[2])
	if err != nil {
		return err
	}
	current := 0
	err = pool.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM "+table, pgx.QueryExecModeExec).Scan(&current)
	var server *pgconn.PgError
	switch isServer := errors.As(err, &server); {
	case isServer && (server.Code == "42P01" || server.Code == "3F000"): // no such table or schema
		return fmt.Errorf("the database has no schema of Rheo's: there is no table %s. Run `rheo migrate`", table)
	case isServer && server.Code == "42501":
		return fmt.Errorf("the database role %s lacks a right that Rheo needs: %s", pool.Config().ConnConfig.User, server.Message)
	case err != nil:
		return fmt.Errorf("looking for Rheo's schema: %w", err)
	case current < latest:
		return fmt.Errorf("the database's schema is at version %d, and this version of rheo needs %d. Run `rheo migrate`", current, latest)
	case current > latest:
		return fmt.Errorf("the database's schema is at version %d, and this version of rheo knows no later than %d. Take a newer rheo", current, latest)
	}
	return nil
}

func postgresSchema(r request) (string, error) {
	_, options, err := postgresConfig(r)
	if err != nil {
		return "", err
	}
	steps, err := postgres.Migrations(options)
	if err != nil {
		return "", err
	}
	var text schemaText
	for _, step := range steps {
		name := step.Name
		if step.Version > 0 {
			name = fmt.Sprintf("%04d_%s", step.Version, name)
		}
		text.add(name, step.SQL)
	}
	return text.String(), nil
}
