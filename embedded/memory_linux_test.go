package embedded_test

import "golang.org/x/sys/unix"

// limitMemory keeps a child that goes wrong from taking the machine's memory.
func limitMemory() error {
	const most = 4 << 30
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most})
}
