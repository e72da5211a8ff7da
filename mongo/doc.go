// Package mongo is the [rheo.Backend] on MongoDB 5.0 or later, over a
// [go.mongodb.org/mongo-driver/v2/mongo.Database] of the host's: a standalone
// server, a replica set or a sharded cluster.
//
//	client, err := mongo.Connect(options.Client().ApplyURI(uri))
//	backend, err := rheomongo.New(client.Database("app"), nil)
//	instance, err := rheo.New(backend, nil)
//	err = instance.EnsureSchema(ctx)
//
// It needs no transactions. What it relies on is that MongoDB changes one document
// at a time, and unique indexes:
//
//   - What an append adds to a partition is one commit document, which carries its
//     events and takes the partition's next sequences: whoever comes second to them
//     looks again. There is no half batch, no gap, and nothing that a writer could
//     leave locked.
//   - A group's ledger in a partition is one document, replaced only if its version
//     is still the one that was read, together with the dead letters of that change.
//
// An append is two commands, a fetch three at most, a settle and a renewal two, for
// batches of any size. Appends that come while one is under way share the next
// commit document. Every write is acknowledged by a majority and journaled,
// whatever the host's client says. [AppendSession] and [SettleSession] take part in
// a transaction of the host's, where the deployment has them.
//
// docs/guides/mongo.md has the set-up, sharding, and what to watch.
package mongo
