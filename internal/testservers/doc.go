// Package testservers starts the servers that tests need: real ones, in a
// directory of their own, on a private socket and port, as an unprivileged user,
// durable as in production. A test gets at one with [Postgres], [PgBouncer], [Redis]
// or [RedisCluster]; without the server's programs it is skipped, or fails if RHEO_TEST_REQUIRE is
// set. A package whose tests use them says so:
//
//	func TestMain(m *testing.M) {
//		goleak.VerifyTestMain(testservers.Main(m))
//	}
//
// What was started ends with the test process, however that ends: a small
// shell beside each server waits for a pipe from here to close, and then kills
// the server and removes its directory.
package testservers
