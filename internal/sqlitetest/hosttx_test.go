package sqlitetest_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/sqlite"
)

// bundle is a store with a stream and a group, and the host's own table beside it.
type bundle struct {
	*testing.T
	db *sql.DB
	in *rheo.Instance
}

// eachSetting runs f as a parallel subtest with each way to open a database.
func eachSetting(t *testing.T, f func(*bundle)) {
	t.Helper()
	for _, s := range settings() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			db := s.open(t, file(t))
			b := &bundle{T: t, db: db, in: instance(t, db)}
			b.noError(b.in.CreateStream(t.Context(), "orders", rheo.StreamConfig{Partitions: 2}))
			b.noError(b.in.CreateGroup(t.Context(), "orders", "billing", rheo.GroupConfig{}))
			_, err := db.ExecContext(t.Context(), "CREATE TABLE invoices (id TEXT PRIMARY KEY)")
			b.noError(err)
			f(b)
		})
	}
}

func (b *bundle) noError(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bundle) begin() *sql.Tx {
	b.Helper()
	tx, err := b.db.BeginTx(b.Context(), nil)
	b.noError(err)
	b.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func (b *bundle) high(want int64) {
	b.Helper()
	info, err := b.in.StreamInfo(b.Context(), "orders")
	b.noError(err)
	if got := info.Events(); got != want {
		b.Errorf("the log has %d events, want %d", got, want)
	}
}

func event(id string) rheo.Event {
	return rheo.Event{ID: id, Key: "k", Type: "ordered", Payload: []byte(`{"total":12.50}`)}
}

func TestAppendTx(t *testing.T) {
	t.Parallel()
	eachSetting(t, func(b *bundle) {
		ctx := b.Context()
		for _, commit := range []bool{true, false} {
			before, err := b.in.StreamInfo(ctx, "orders")
			b.noError(err)
			tx := b.begin()
			id := "rolled-back"
			if commit {
				id = "committed"
			}
			_, err = tx.ExecContext(ctx, "INSERT INTO invoices VALUES (?)", id)
			b.noError(err)
			results, err := sqlite.AppendTx(ctx, b.in, tx, "orders", event(id+"-1"), event(id+"-2"))
			b.noError(err)
			b.high(before.Events())
			again, err := sqlite.AppendTx(ctx, b.in, tx, "orders", event(id+"-2"), event(id+"-3"), event(id+"-3"))
			b.noError(err)
			if results[1].Sequence != again[0].Sequence || !again[0].Duplicate || again[1].Sequence != again[0].Sequence+1 || !again[2].Duplicate {
				b.Errorf("got %+v and then %+v", results, again)
			}
			if !commit {
				b.noError(tx.Rollback())
				b.high(before.Events())
				continue
			}
			b.noError(tx.Commit())
			b.high(before.Events() + 3)
		}
		results, err := b.in.Append(ctx, "orders", event("afterwards"))
		b.noError(err)
		if results[0].Sequence != 4 {
			b.Errorf("the next sequence is %d, want 4", results[0].Sequence)
		}
	})
}

func TestAppendTxConflict(t *testing.T) {
	t.Parallel()
	eachSetting(t, func(b *bundle) {
		ctx := b.Context()
		first, err := b.in.Append(ctx, "orders", event("1"))
		b.noError(err)
		p := first[0].Partition
		tx := b.begin()
		_, err = sqlite.AppendExpectingTx(ctx, b.in, tx, "orders", rheo.ExpectedSequence{p: 0}, event("2"))
		if !errors.Is(err, rheo.ErrConflict) {
			b.Errorf("got %v, want ErrConflict", err)
		}
		_, err = sqlite.AppendTx(ctx, b.in, tx, "orders", rheo.Event{ID: "3", Payload: []byte("not json")})
		if !errors.Is(err, rheo.ErrInvalid) {
			b.Errorf("got %v, want ErrInvalid", err)
		}
		_, err = sqlite.AppendTx(ctx, b.in, tx, "nowhere", event("4"))
		if !errors.Is(err, rheo.ErrStreamNotFound) {
			b.Errorf("got %v, want ErrStreamNotFound", err)
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO invoices VALUES ('still usable')")
		b.noError(err)
		b.noError(tx.Commit())
		b.high(1)
	})
}

// TestAppendTxSnapshot shows what a transaction meets that was begun to read.
func TestAppendTxSnapshot(t *testing.T) {
	t.Parallel()
	for _, s := range settings() {
		if s.journal != "WAL" {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			appendTxSnapshot(t, s)
		})
	}
}

func appendTxSnapshot(t *testing.T, s setting) {
	t.Helper()
	path := file(t)
	in := instance(t, s.open(t, path))
	if err := in.CreateStream(t.Context(), "orders", rheo.StreamConfig{}); err != nil {
		t.Fatal(err)
	}
	deferred, err := sql.Open(s.driver, "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer deferred.Close()
	tx, err := deferred.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // the end of a failed transaction
	var n int
	if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM rheo_events").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Append(t.Context(), "orders", event("1")); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err = sqlite.AppendTx(t.Context(), in, tx, "orders", event("2"))
	wants(t, "a reader that would write", err, rheo.ErrUnavailable, "roll back")
	if took := time.Since(start); took > time.Second {
		t.Errorf("it took %v to say so", took)
	}
}

func TestSettleTx(t *testing.T) {
	t.Parallel()
	eachSetting(t, func(b *bundle) {
		ctx := b.Context()
		_, err := b.in.Append(ctx, "orders", event("1"), event("2"))
		b.noError(err)
		leases, err := b.in.Fetch(ctx, "orders", "billing", rheo.FetchOptions{Max: 2})
		b.noError(err)
		ack := rheo.Settlement{Lease: leases[0], Outcome: rheo.OutcomeAck}

		tx := b.begin()
		results, err := sqlite.SettleTx(ctx, b.in, tx, ack)
		b.noError(errors.Join(err, results[0]))
		b.noError(tx.Rollback())
		b.noError(b.in.Release(ctx, leases[1]))

		tx = b.begin()
		_, err = tx.ExecContext(ctx, "INSERT INTO invoices VALUES ('1')")
		b.noError(err)
		results, err = sqlite.SettleTx(ctx, b.in, tx, ack, rheo.Settlement{Lease: leases[1], Outcome: rheo.OutcomeAck})
		b.noError(errors.Join(err, results[0]))
		if !errors.Is(results[1], rheo.ErrStaleLease) {
			b.Errorf("the released lease gave %v, want ErrStaleLease", results[1])
		}
		b.noError(tx.Commit())
		if err := b.in.Ack(ctx, leases[0]); !errors.Is(err, rheo.ErrStaleLease) {
			b.Errorf("settled twice: %v, want ErrStaleLease", err)
		}
		leases, err = b.in.Fetch(ctx, "orders", "billing", rheo.FetchOptions{Max: 9})
		b.noError(err)
		if len(leases) != 1 || leases[0].ID != "2" {
			b.Errorf("got %d leases, want event 2 alone", len(leases))
		}
	})
}

// TestOneConnection has nothing but the one connection for everything.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"sqlite3", "sqlite"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			db, err := sql.Open(driver, ":memory:")
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			db.SetMaxOpenConns(1)
			in := instance(t, db)
			ctx := t.Context()
			if err := in.CreateStream(ctx, "orders", rheo.StreamConfig{}); err != nil {
				t.Fatal(err)
			}
			if err := in.CreateGroup(ctx, "orders", "billing", rheo.GroupConfig{}); err != nil {
				t.Fatal(err)
			}
			other, err := rheo.New(newBackend(t, db, nil), nil) // knows no stream yet
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := sqlite.AppendTx(ctx, other, tx, "orders", event("1")); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			hints, stop := in.Backend().(rheo.Waiter).Watch("orders")
			defer stop()
			if _, err := in.Append(ctx, "orders", event("2")); err != nil {
				t.Fatal(err)
			}
			<-hints
			leases, err := in.Fetch(ctx, "orders", "billing", rheo.FetchOptions{Max: 9})
			if err != nil || len(leases) != 2 {
				t.Fatalf("got %d leases and %v, want 2", len(leases), err)
			}
		})
	}
}
