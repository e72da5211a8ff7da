package embedded

import "go.etcd.io/bbolt"

// Dir is where the store lies.
func (b *Backend) Dir() string { return b.dir }

// OnCommit has f called in place of each commit. It is to be called while nothing
// is written.
func (b *Backend) OnCommit(f func(*bbolt.Tx) error) { b.db.commit = f }

// LimitClaims sets the size at which the claims log goes on in its other file.
func (b *Backend) LimitClaims(size int64) { b.claims.limit = size }

// ClaimsFile is a file of the claims log.
type ClaimsFile = osFile

// OnClaims puts files in the place of those of the claims log. It is to be called
// while nothing is fetched.
func (b *Backend) OnClaims(wrap func(ClaimsFile) ClaimsFile) {
	for i := range b.claims.files {
		b.claims.files[i].osFile = wrap(b.claims.files[i].osFile)
	}
}

// Indexed is up to which sequence a partition's IDs are in the index.
func (b *Backend) Indexed(stream string, partition int) int64 {
	s, err := b.stream(stream)
	if err != nil {
		return -1
	}
	t := &s.partitions[partition].ids
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.indexed
}

// Abandon lets go of the store as the death of the process would, but for the
// memory: nothing is written any more.
func (b *Backend) Abandon() {
	b.closed.Store(true)
	b.committer.close()
	_ = b.claims.close()
	_ = b.db.close()
	unlock(b.lock.file)
	_ = b.lock.file.Close()
}
