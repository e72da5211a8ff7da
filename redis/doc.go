// Package redis is the [rheo.Backend] on Redis 6.2 or later, or Valkey, over a client of
// github.com/redis/go-redis/v9 that the host has: a single server, one behind Sentinel,
// or a cluster.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"}) // go-redis
//	backend, err := rheoredis.New(client, nil)                         // this package
//	instance, err := rheo.New(backend, nil)
//
// A partition is a Redis Stream, and a group a consumer group of it: the pending list
// holds the leases, fences them and says what is due, and nothing is kept twice. Every
// operation on a partition is one script with all its keys declared and in one hash slot:
// atomic, one round trip for a batch of any size, and good on a cluster. Time is Redis'.
//
// What is promised depends on how Redis is run:
//
//   - An append is as durable as the server's persistence makes it: with appendfsync
//     always, once it has returned; with everysec, a crash of the machine takes up to a
//     second back. A server that evicts keys, or that keeps nothing, is no store for a
//     log; [Backend.Advise] tells.
//   - An event ID is recognised for [Options].IdempotencyWindow after its append, and not
//     for ever. One that rises above those before it, as the UUIDv7s do that Rheo makes,
//     is recognised as long as the log holds its event.
//   - A batch is atomic within each partition, not across them.
//   - What the server has lost is reported and never taken for an empty log. A consumer
//     group that somebody destroyed is made again at its last known frontier: deliveries
//     repeat, and none is left out.
//
// docs/guides/redis.md has the settings, what a log costs in memory, clusters, and the
// rights that an ACL must give.
package redis
