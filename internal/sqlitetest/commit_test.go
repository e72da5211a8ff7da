package sqlitetest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/mattn/go-sqlite3"

	"github.com/rheo-go/rheo"
)

// faultyCommits is a driver whose commits fail, before or after they happen, as
// often as it is told.
type faultyCommits struct {
	driver.Driver
	dsn    string
	before atomic.Int32
	after  atomic.Int32
}

func (f *faultyCommits) Connect(context.Context) (driver.Conn, error) {
	conn, err := f.Driver.Open(f.dsn)
	return &faultyConn{conn, f}, err
}

type faultyConnector struct{ *faultyCommits }

func (f faultyConnector) Driver() driver.Driver { return f.faultyCommits.Driver }

type faultyConn struct {
	driver.Conn
	faults *faultyCommits
}

func (c *faultyConn) Prepare(query string) (driver.Stmt, error) {
	stmt, err := c.Conn.Prepare(query)
	if err == nil && query == "COMMIT" {
		stmt = &faultyCommit{stmt, c.faults}
	}
	return stmt, err
}

type faultyCommit struct {
	driver.Stmt
	faults *faultyCommits
}

func (s *faultyCommit) Exec([]driver.Value) (driver.Result, error) {
	broken := sqlite3.Error{Code: sqlite3.ErrIoErr, ExtendedCode: sqlite3.ErrIoErrFsync}
	if s.faults.before.Add(-1) >= 0 {
		return nil, broken
	}
	result, err := s.Stmt.Exec(nil) //nolint:staticcheck // the wrapped driver gets what database/sql gives a simple one
	if err == nil && s.faults.after.Add(-1) >= 0 {
		return nil, broken
	}
	return result, err
}

// TestFailingCommit repeats what a commit has failed, as a caller does.
func TestFailingCommit(t *testing.T) {
	t.Parallel()
	faults := &faultyCommits{Driver: &sqlite3.SQLiteDriver{}, dsn: mattnWAL.dsn(file(t))}
	db := sql.OpenDB(faultyConnector{faults})
	t.Cleanup(func() { _ = db.Close() })
	in := instance(t, db)
	ctx := t.Context()
	if err := in.CreateStream(ctx, "s", rheo.StreamConfig{}); err != nil {
		t.Fatal(err)
	}
	if err := in.CreateGroup(ctx, "s", "g", rheo.GroupConfig{}); err != nil {
		t.Fatal(err)
	}
	for _, fault := range []*atomic.Int32{&faults.before, &faults.after} {
		fault.Store(1)
		e := event("before")
		if fault == &faults.after {
			e = event("after")
		}
		if _, err := in.Append(ctx, "s", e); !errors.Is(err, rheo.ErrAmbiguous) {
			t.Fatalf("%s: got %v, want ErrAmbiguous", e.ID, err)
		}
		results, err := in.Append(ctx, "s", e)
		if err != nil || results[0].Duplicate != (fault == &faults.after) {
			t.Errorf("%s: repeated: %+v, %v", e.ID, results, err)
		}
	}
	leases, err := in.Fetch(ctx, "s", "g", rheo.FetchOptions{Max: 9})
	if err != nil || len(leases) != 2 {
		t.Fatalf("%d leases and %v, want 2", len(leases), err)
	}
	faults.before.Store(1)
	if err := in.Ack(ctx, leases[0]); !errors.Is(err, rheo.ErrAmbiguous) {
		t.Errorf("got %v, want ErrAmbiguous", err)
	}
	if err := in.Ack(ctx, leases[0]); err != nil {
		t.Errorf("an ack that did not go through is not held any more: %v", err)
	}
	faults.after.Store(1)
	if err := in.Ack(ctx, leases[1]); !errors.Is(err, rheo.ErrAmbiguous) {
		t.Errorf("got %v, want ErrAmbiguous", err)
	}
	if err := in.Ack(ctx, leases[1]); !errors.Is(err, rheo.ErrStaleLease) {
		t.Errorf("an ack that went through can be repeated: %v", err)
	}
}
