// Package mongotest is the MongoDB backend's tests. It is a module of its own
// because its server is FerretDB 1.24, with SQLite behind it, which the tests build
// and start (cmd/ferretdb): no mongod can be had where these tests run, and FerretDB
// brings fifty modules that no user of the backend should meet.
//
// FerretDB speaks MongoDB's protocol and is strict about unique indexes, which is
// what appends rest on. It does not keep one promise of MongoDB's: an update with a
// filter is not atomic there under concurrency (400 times $inc of one, by eight, came
// to 55). So the tests reach it through a proxy that lets one command at a time
// through, from all connections together, and thereby restores the promise without
// being more than a server may be: clients still take turns as they like between
// commands. TestUnserialised shows that appends need no such help. The proxy also
// counts commands, loses answers and loses requests.
//
// FerretDB lacks transactions, change streams and the use of most indexes; a command
// reads whole collections. So the suite runs at a small scale here, on two servers,
// each of which has some of the cases.
//
// With RHEO_TEST_MONGO_URL set to a server's URL, the same tests run against it,
// through a proxy that does not serialise, each on a prefix of its own in the database
// that the URL names, or rheo_test. Where that server is a replica set, so do the
// cases about transactions and change streams. For a server that the proxy cannot
// stand before (mongodb+srv, TLS, several hosts) only those tests run that need no
// proxy.
package mongotest
