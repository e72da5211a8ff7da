// Package watermilltest runs Watermill's own test suite against rheowatermill on
// every backend. It is a module of its own, so that the drivers it needs are not
// the adapter's.
package watermilltest
