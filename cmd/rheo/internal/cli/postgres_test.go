//go:build unix

package cli

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/internal/testservers"
)

// newPostgres is a shell on a new database, which has no schema yet.
func newPostgres(t *testing.T) *shellOf {
	t.Helper()
	return &shellOf{t: t, store: testservers.Postgres(t).Database(t)}
}

// psql asks the database itself, as its administrator.
func (s *shellOf) psql(sql string) string {
	s.t.Helper()
	u, err := url.Parse(s.store)
	if err != nil {
		s.t.Fatal(err)
	}
	c := testservers.Postgres(s.t)
	out, err := c.Run(context.WithoutCancel(s.t.Context()), "psql", "-d", c.URL(strings.TrimPrefix(u.Path, "/")), "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql)
	if err != nil {
		s.t.Fatalf("%s: %v: %s", sql, err, out)
	}
	return out
}

const countTables = "SELECT count(*) FROM pg_class WHERE relname LIKE 'rheo%'"

// everyCommand is each that needs a store, but for migrate.
var everyCommand = [][]string{
	{"stream", "create", "n"},
	{"stream", "list"},
	{"stream", "info", "n"},
	{"group", "create", "n", "g"},
	{"group", "list", "n"},
	{"append", "n"},
	{"read", "n"},
	{"query", "n"},
	{"consume", "n", "g"},
	{"consume", "n", "g", "--until-empty"},
	{"lag", "n", "g"},
	{"dead-letters", "list", "n", "g"},
	{"replay", "n", "g", "--from-sequence", "1"},
	{"reset", "n", "g", "--confirm"},
	{"demo"},
}

// TestPostgresURL: a wrong URL is an error at once, whatever the command, and
// tells no password.
func TestPostgresURL(t *testing.T) {
	t.Parallel()
	for store, test := range map[string]struct {
		code int
		want string
	}{
		"postgres://u:s3cret@127.0.0.1:1/db":                 {exitFailed, "PostgreSQL cannot be reached"},
		"postgresql://127.0.0.1:1/db?user=u&password=s3cret": {exitFailed, "PostgreSQL cannot be reached"},
		"postgres://u:s3cret%zz@h/db":                        {exitUsage, "write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with %XX for"},
		"postgres://u:s3cret/more@h/db":                      {exitUsage, "not a valid URL"},
		"postgres://u:s3cret#more@h/db":                      {exitUsage, "not a valid URL"},
		"postgres://u:s3cret?more@h/db":                      {exitUsage, "not a valid URL"},
		"postgres:u:s3cret@h/db":                             {exitUsage, "not a valid URL"},
		"postgres://u:s3cret@h:port/db":                      {exitUsage, "not a valid URL"},
		"postgres://u:s3cret@h/db?sslmode=perhaps":           {exitUsage, "sslmode"},
		"postgres://h/db?password=s3cret&sslmode=perhaps":    {exitUsage, "sslmode"},
		"postgres://u:s3cret@h/db?pool_max_conns=many":       {exitUsage, "pool_max_conns"},
		"postgres://u:s3cret@h/db?rheo_notify=perhaps":       {exitUsage, "must be on or off"},
		"postgres://u:s3cret@h/db?rheo_prefx=x":              {exitUsage, "rheo_prefx"},
		"postgres://u:s3cret@h/db?rheo_prefix=.x":            {exitFailed, "empty schema"},
	} {
		s := &shellOf{t: t, store: store}
		for _, args := range append(everyCommand, []string{"migrate"}) {
			s.refused(test.code, test.want, args...)
		}
	}
	s := newPostgres(t)
	s.store = strings.Replace(s.store, "/test_", "/missing_", 1)
	s.refused(exitFailed, "does not exist", "consume", "n", "g")
}

// TestPostgresWithoutSchema: nothing but migrate makes it.
func TestPostgresWithoutSchema(t *testing.T) {
	t.Parallel()
	s := newPostgres(t)
	for _, args := range everyCommand {
		s.refused(exitFailed, "migrate\nmakes or updates the schema", args...)
	}
	if got := s.psql(countTables); got != "0" {
		t.Errorf("%s tables", got)
	}
	s.ok("migrate")
	s.ok("migrate")
	s.ok("stream", "list")
	s.psql("DELETE FROM rheo_migrations WHERE version > 1")
	s.refused(exitFailed, "is at version 1, and this version of rheo needs", "stream", "list")
}

func TestPostgresFromTheFuture(t *testing.T) {
	t.Parallel()
	s := newPostgres(t)
	s.ok("migrate")
	s.psql("INSERT INTO rheo_migrations (version) VALUES (1000)")
	for _, args := range append(everyCommand, []string{"migrate"}, []string{"migrate", "--index", "payload"}) {
		s.refused(exitFailed, "version 1000", args...)
	}
	if got := s.psql("SELECT count(*) FROM rheo_streams") + s.psql("SELECT count(*) FROM pg_class WHERE relname = 'rheo_events_payload'"); got != "00" {
		t.Errorf("half done: %s", got)
	}
}

// TestPostgresRole: a role with too few rights gets an error from each command
// that needs more, and changes nothing.
func TestPostgresRole(t *testing.T) {
	t.Parallel()
	s := newPostgres(t)
	owner := s.store
	s.ok("migrate")
	s.one(t)
	u, err := url.Parse(owner)
	if err != nil {
		t.Fatal(err)
	}
	role := "weak_" + strings.TrimPrefix(u.Path, "/")
	s.psql("CREATE ROLE " + role + " LOGIN PASSWORD 's3cret'")
	t.Cleanup(func() { // a role is the cluster's
		s.psql("DROP OWNED BY " + role + "; DROP ROLE " + role)
	})
	u.User = url.UserPassword(role, "s3cret")
	s.store = u.String()
	for _, args := range everyCommand {
		s.refused(exitFailed, role+" lacks a right that Rheo needs: permission denied for table rheo_migrations", args...)
	}
	s.psql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO " + role)
	s.ok("read", "n")
	s.stdin = "2"
	for _, args := range [][]string{
		{"stream", "create", "m"},
		{"group", "create", "n", "h"},
		{"append", "n"},
		{"reset", "n", "g", "--confirm"},
		{"replay", "n", "g", "--from-sequence", "1"},
		{"demo"},
	} {
		s.refused(exitFailed, "permission denied", args...)
	}
	s.store = owner
	if got := s.psql("SELECT count(*) FROM rheo_streams") + s.psql("SELECT count(*) FROM rheo_events"); got != "11" {
		t.Errorf("half done: %s", got)
	}
}

// TestHostileNames: they are plain data, in every store.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	onEach(t, func(s *shellOf) {
		t := s.t
		name := `'; DROP TABLE rheo_events; -- "quoted" $1 ? {events} %s 😀`
		s.ok("stream", "create", name)
		s.ok("group", "create", name, name)
		s.stdin = mustJSON(t, map[string]any{"id": name, "a') OR TRUE --": map[string]any{"%s": "'"}}) + "\n" + `{"id":"other"}`
		s.ok("append", name, "--id", "id", "--key", "id", "--type", "id")
		asName := strings.NewReplacer(` `, `\ `, `=`, `\=`, `<`, `\<`) // a part of the path
		evil := asName.Replace(`a') OR TRUE --.%s`)
		for where, want := range map[string]int{
			evil + ` = '`:   1,
			evil + ` < 'x`:  1,
			`key = ` + name: 1,
			asName.Replace(`metadata.'; DROP TABLE rheo_events; --`) + ` = x`:             0,
			asName.Replace(`x') OR ('1'='1`) + ` = "y' OR '1'='1"`:                        0,
			asName.Replace(`$1) OR TRUE; DELETE FROM rheo_events; --`) + ` exists`:        0,
			asName.Replace(`"}]'::jsonb OR TRUE; DROP TABLE rheo_events; --`) + ` in [1]`: 0,
			asName.Replace(`x' IN (SELECT 1)) --`) + ` in ["') OR 1=1 --", "other"]`:      0,
		} {
			if got := events(t, s.ok("query", name, "--where", where, "--json")); len(got) != want {
				t.Errorf("%s: %d events, want %d", where, len(got), want)
			}
		}
		s.refused(exitUsage, `no operator "OR"`, "query", name, "--where", `a OR TRUE`)
		if seen := events(t, s.ok("consume", name, name, "--until-empty", "--consumer-id", name)); len(seen) != 2 || !ids(seen)[name] {
			t.Errorf("consumed %+v", seen)
		}
		s.ok("replay", name, name, "--where", evil+` = '`)
		if seen := events(t, s.ok("consume", name, name, "--until-empty")); len(seen) != 1 || !ids(seen)[name] {
			t.Errorf("after the replay: %+v", seen)
		}
	})
}

func TestPostgresMigrate(t *testing.T) {
	t.Parallel()
	s := newPostgres(t)
	const indexes = "SELECT count(*) FROM pg_class WHERE relname = 'rheo_events_payload'"
	printed := s.ok("migrate", "--print", "--index", "payload")
	if got := s.psql(countTables); got != "0" {
		t.Errorf("migrate --print has made %s tables", got)
	}
	s.psql(printed)
	contains(t, s.ok("migrate"), "is ready")
	if got := s.psql(indexes); got != "1" {
		t.Error("the printed schema made no index")
	}

	s = newPostgres(t)
	plain := s.ok("migrate", "--print")
	if strings.Contains(plain, "rheo_events_payload") || !strings.HasPrefix(printed, strings.TrimSpace(plain)) {
		t.Errorf("--index payload prints something else before the index:\n%s", plain)
	}
	s.ok("migrate")
	if got := s.psql(indexes); got != "0" {
		t.Error("migrate alone made the index")
	}
	s.ok("migrate", "--index", "payload")
	s.ok("migrate", "--index", "payload")
	if got := s.psql(indexes); got != "1" {
		t.Error("migrate --index payload made none")
	}
	s.one(t)

	bare := s.store
	s.store += "&rheo_notify=off&rheo_prefix=" + url.QueryEscape("my events.r_")
	s.refused(exitFailed, `there is no table "my events"."r_migrations"`, "stream", "list")
	s.ok("migrate")
	s.ok("stream", "create", "other")
	s.stdin = "1"
	s.ok("append", "other")
	if got := s.psql(`SELECT count(*) FROM "my events".r_events`); got != "1" {
		t.Errorf("%s events", got)
	}
	s.store = bare
	if out := s.ok("stream", "list"); strings.Contains(out, "other") {
		t.Errorf("two prefixes share a stream: %s", out)
	}
}

// TestTwoConsumers: two processes share a group's work; one is killed -9, and the
// other finishes it.
func TestTwoConsumers(t *testing.T) {
	t.Parallel()
	for kind, store := range kinds {
		if kind == "embedded" { // for one process at a time
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := &shellOf{t: t, store: store(t)}
			s.appendFeed("alarms")
			// Neither gets ahead by more than the pipe holds, and what it has leased.
			consume := []string{"consume", "quakes", "alarms", "--lease", "1s", "--max-demand", "50"}
			killed, other := s.start(consume...), s.start(append(slices.Clone(consume), "--until-empty")...)
			var first, second []string
			for range 300 {
				first, second = append(first, killed.line()), append(second, other.line())
			}
			if err := killed.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			rest, code := killed.rest()
			if code != -1 {
				t.Fatalf("it ended by itself, with %d", code)
			}
			if n := len(rest); n > 0 && !strings.HasSuffix(rest[n-1], "}") { // cut off by the kill
				rest = rest[:n-1]
			}
			first = append(first, rest...)
			rest, code = other.rest()
			if code != exitDone {
				t.Fatalf("exit %d\n%s", code, &other.stderr)
			}
			second = append(second, rest...)
			of, by := ids(events(t, strings.Join(first, "\n"))), ids(events(t, strings.Join(second, "\n")))
			both := 0
			for id := range by {
				if of[id] {
					both++
				}
				of[id] = true
			}
			if len(by) != len(second) || len(of) != 1707 || both > 50 {
				t.Errorf("the killed one printed %d, the other %d, %d of them twice itself; together %d IDs, want 1707; both printed %d, want at most the 50 leased",
					len(first), len(second), len(second)-len(by), len(of), both)
			}
			t.Logf("the killed one printed %d, the other %d; both printed %d", len(first), len(second), both)
			var lag rheo.Lag
			s.json(&lag, "lag", "quakes", "alarms")
			if lag.Lag != 0 {
				t.Errorf("lag %d, want 0", lag.Lag)
			}
		})
	}
}
