package rheo

import "encoding/binary"

// Router places an event on one of n partitions: a number from 0 to n-1. It
// must be pure: the same key always goes the same way, or order within a key
// and idempotency are lost. It runs concurrently.
type Router func(key string, n int) int

// PHash2 is the default [Router]: Erlang's phash2/2 of the key as a binary, so
// that Elixir and Go producers of one stream agree.
func PHash2(key string, n int) int {
	return int(uint64(blockHash(key, phashBinary)) % uint64(n))
}

const (
	phashGolden = 0x9e3779b9
	phashBinary = phashGolden * 13 & 0xffffffff // phash2's salt for the binary type
)

// blockHash is Bob Jenkins' lookup2 as Erlang/OTP uses it in phash2.
func blockHash(key string, initial uint32) uint32 {
	if key == "" {
		return initial
	}
	k := []byte(key)
	a, b, c := uint32(phashGolden), uint32(phashGolden), initial
	for len(k) >= 12 {
		a += binary.LittleEndian.Uint32(k)
		b += binary.LittleEndian.Uint32(k[4:])
		c += binary.LittleEndian.Uint32(k[8:])
		a, b, c = mix(a, b, c)
		k = k[12:]
	}
	// The low byte of c belongs to the length, so the tail's last word shifts by one.
	var tail [13]byte
	n := copy(tail[:8], k)
	copy(tail[9:], k[n:])
	a += binary.LittleEndian.Uint32(tail[0:])
	b += binary.LittleEndian.Uint32(tail[4:])
	c += binary.LittleEndian.Uint32(tail[8:]) + uint32(len(key))
	_, _, c = mix(a, b, c)
	return c
}

func mix(a, b, c uint32) (uint32, uint32, uint32) {
	a = (a - b - c) ^ c>>13
	b = (b - c - a) ^ a<<8
	c = (c - a - b) ^ b>>13
	a = (a - b - c) ^ c>>12
	b = (b - c - a) ^ a<<16
	c = (c - a - b) ^ b>>5
	a = (a - b - c) ^ c>>3
	b = (b - c - a) ^ a<<10
	c = (c - a - b) ^ b>>15
	return a, b, c
}
