// Package sqlite is the [rheo.Backend] that keeps a store in a SQLite database: the
// one that the host has open anyway, with whatever driver for database/sql. It
// imports none. SQLite must be 3.35 or later.
//
// What a call did is as durable when it returns as the host's PRAGMA synchronous
// makes a commit; nothing here changes a setting of the host's connections. Any
// journal mode will do, and WAL is the one that lets readers and the writer go
// side by side.
//
// Several processes may share the file. SQLite has one writer at a time: calls of
// one process that come at the same time share a transaction, and processes wait
// for each other inside the call, up to its context. SQLITE_BUSY is not returned.
//
// A database in memory works if the pool has one connection for ever
// (SetMaxOpenConns(1), no lifetimes), else each connection has a database of its
// own. A shared cache (cache=shared) is not supported.
package sqlite
