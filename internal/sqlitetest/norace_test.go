//go:build !race

package sqlitetest_test

const raceEnabled = false
