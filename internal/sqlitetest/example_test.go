package sqlitetest_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/sqlite"
)

// openShop is what a service does when it starts.
func openShop(ctx context.Context, dir string) (*sql.DB, *rheo.Instance, error) {
	// modernc.org/sqlite. The same with github.com/mattn/go-sqlite3:
	//
	//	sql.Open("sqlite3", "file:"+path+"?_journal_mode=WAL&_synchronous=FULL&_txlock=immediate")
	path := filepath.Join(dir, "shop.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return nil, nil, err
	}
	backend, err := sqlite.New(db, nil)
	if err != nil {
		return nil, nil, err
	}
	in, err := rheo.New(backend, nil)
	if err != nil {
		return nil, nil, err
	}
	if err := in.EnsureSchema(ctx); err != nil {
		return nil, nil, err
	}
	if err := in.CreateStream(ctx, "orders", rheo.StreamConfig{Partitions: 4}); err != nil {
		return nil, nil, err
	}
	if err := in.CreateGroup(ctx, "orders", "billing", rheo.GroupConfig{}); err != nil {
		return nil, nil, err
	}
	_, err = db.ExecContext(ctx, `
		CREATE TABLE orders (id TEXT PRIMARY KEY, total INTEGER);
		CREATE TABLE invoices (order_id TEXT, total INTEGER)`)
	return db, in, err
}

// placeOrder writes the order and its event in one transaction: there is never one
// without the other.
func placeOrder(ctx context.Context, db *sql.DB, in *rheo.Instance, id string, total int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing left of it
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (?, ?)", id, total); err != nil {
		return err
	}
	_, err = sqlite.AppendTx(ctx, in, tx, "orders", rheo.Event{
		ID: "placed-" + id, Key: id, Type: "placed", Payload: fmt.Appendf(nil, `{"order":%q,"total":%d}`, id, total),
	})
	if err != nil {
		return err
	}
	return tx.Commit()
}

// bill writes the invoice and acks the event in one transaction: each order is
// invoiced exactly once, whatever is killed or delivered again.
func bill(ctx context.Context, db *sql.DB, in *rheo.Instance, lease *rheo.Lease) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing left of it
	_, err = tx.ExecContext(ctx, "INSERT INTO invoices VALUES (?, json_extract(?, '$.total'))", lease.Key, string(lease.Payload))
	if err != nil {
		return err
	}
	results, err := sqlite.SettleTx(ctx, in, tx, rheo.Settlement{Lease: lease, Outcome: rheo.OutcomeAck})
	if err != nil {
		return err
	}
	if results[0] != nil {
		return results[0] // somebody else has it by now: roll back
	}
	return tx.Commit()
}

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, in, err := openShop(ctx, dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	defer in.Close()

	fmt.Println(placeOrder(ctx, db, in, "A-1", 30), placeOrder(ctx, db, in, "A-2", 12))
	fmt.Println("again:", placeOrder(ctx, db, in, "A-2", 12) != nil)

	leases, err := in.Fetch(ctx, "orders", "billing", rheo.FetchOptions{Max: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, lease := range leases {
		if err := bill(ctx, db, in, lease); err != nil {
			fmt.Println(err)
		}
	}
	var invoices, total int
	if err := db.QueryRowContext(ctx, "SELECT count(*), sum(total) FROM invoices").Scan(&invoices, &total); err != nil {
		fmt.Println(err)
	}
	fmt.Println(invoices, "invoices over", total)
	lag, err := in.Lag(ctx, "orders", "billing")
	fmt.Println("lag", lag.Lag, err)
	// Output:
	// <nil> <nil>
	// again: true
	// 2 invoices over 42
	// lag 0 <nil>
}
