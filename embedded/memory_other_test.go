//go:build !linux

package embedded_test

func limitMemory() error { return nil }
