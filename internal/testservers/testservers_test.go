package testservers_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rheo-go/rheo/internal/testservers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testservers.Main(m)) }

func TestPostgresSurvivesKill(t *testing.T) {
	c := testservers.OwnPostgres(t)
	database := c.Database(t)
	query := func(sql string) string {
		t.Helper()
		out, err := c.Run(t.Context(), "psql", "-d", database, "-XAtqc", sql)
		if err != nil {
			t.Fatalf("%s: %v: %s", sql, err, out)
		}
		return out
	}
	query("CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)")
	c.Kill(t)
	c.Restart(t)
	if got := query("SELECT n FROM kept"); got != "7" {
		t.Errorf("after the restart: %q", got)
	}
}

func TestPgBouncer(t *testing.T) {
	c := testservers.Postgres(t)
	through := testservers.PgBouncer(t, c.Database(t))
	if out, err := c.Run(t.Context(), "psql", "-d", through, "-XAtqc", "SELECT 6*7"); err != nil || out != "42" {
		t.Errorf("through the pooler: %q, %v", out, err)
	}
}
