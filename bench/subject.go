package bench

import "context"

// Subjects returns those that need nothing but this process, in the order of the
// tables. This, and the functions below for those with a database, is the place
// to register one more.
func Subjects() []Subject {
	return []Subject{
		// Rheo itself.
		Memory(),
		Embedded(),
		RheoWatermill{Memory: true},

		// Yardsticks.
		Bbolt{},
		GoChannel{},
		JetStream{SyncAlways: true},
		JetStream{},
	}
}

// SQLiteSubjects returns those on a SQLite file, WAL and FULL: what a host does
// that must lose nothing.
func SQLiteSubjects() []Subject {
	return []Subject{
		SQLite{Driver: Mattn},
		SQLite{Driver: Modernc},

		// Yardsticks.
		SQLiteLog{Driver: Mattn},
		SQLiteLog{Driver: Modernc},
		Goqite{Driver: Mattn},
	}
}

// PostgresSubjects returns those in a PostgreSQL database. The server is asked
// for when the first of them is opened.
func PostgresSubjects(server Server) []Subject {
	return []Subject{
		Postgres{Server: server, Partitions: 1},
		Postgres{Server: server, Partitions: 8},
		Postgres{Server: server, Partitions: 8, ByKey: true},
		RheoWatermill{Server: server},

		// Yardsticks.
		PgxLog{Server: server, Partitions: 1},
		PgxLog{Server: server, Partitions: 8},
		PgxLog{Server: server, Partitions: 1, UniqueID: true},
		PgxLog{Server: server, Partitions: 8, UniqueID: true},
		PgxInsert{Server: server},
		River{Server: server},
		WatermillSQL{Server: server},
		WatermillSQL{Server: server, Queue: true},
	}
}

// Subject is something that can be measured: a store of Rheo, or a yardstick.
type Subject interface {
	// Name is unique among the subjects, and short: it heads a line of the table
	// and selects the subject in --only.
	Name() string
	// Confirms says in a few words what is true of an event once Append has
	// returned, as figures of stores that promise less are not comparable.
	Confirms() string
	// Open makes an empty log in dir, which is empty and removed afterwards.
	Open(ctx context.Context, dir string) (Session, error)
}

// Session is an open log with at most one durable consumer. Append and Consume
// are called from several goroutines at once, but not after Close.
type Session interface {
	// Append stores the batch and returns when the store has confirmed all of it.
	Append(ctx context.Context, batch []Event) error
	// Subscribe makes the consumer, starting at the beginning of the log. It is
	// called once, before the first Append; not at all if only Append is measured.
	Subscribe(ctx context.Context) error
	// Consume waits for at least one event, takes what is there up to limit, calls
	// handle with each event's payload, settles them and returns their number.
	// The payload may be used only until handle returns.
	Consume(ctx context.Context, limit int, handle func(payload []byte)) (int, error)
	// Flush returns when the store has confirmed whatever Consume has settled.
	Flush(ctx context.Context) error
	// Close ends everything that Open and Subscribe started.
	Close() error
}
