package embedded

// arena is memory for the values of one commit, used again for the next.
type arena struct{ free, all []byte }

// maxArena is how much is kept between commits.
const maxArena = 1 << 20

// take returns an empty slice with room for n bytes.
func (a *arena) take(n int) []byte {
	if n > len(a.free) {
		a.all = make([]byte, max(n, min(2*len(a.all), maxArena), maxArena/16))
		a.free = a.all
	}
	b := a.free[:0:n]
	a.free = a.free[n:]
	return b
}

// reset makes everything that was taken free again.
func (a *arena) reset() {
	if len(a.all) > maxArena {
		a.all = nil
	}
	a.free = a.all
}
