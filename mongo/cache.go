package mongo

import (
	"slices"
	"sync"
)

// commitCache remembers commit documents that were written or read lately. They
// never change, and who appends is often who fetches, or fetches again.
type commitCache struct {
	mu    sync.Mutex
	parts map[partitionKey][]*commit // ascending, apart
	queue []*commit                  // in the order in which they came
	bytes int
}

type partitionKey struct {
	stream    string
	partition int
}

// What is remembered at most: all together, and of what size a document.
const (
	cacheBytes      = 8 << 20
	cacheLargestDoc = 2 << 20
)

// bytes is about what the document takes in memory.
func (c *commit) bytes() int {
	const each = 120
	n := each
	for i := range c.Events {
		e := &c.Events[i]
		n += each + len(c.IDs[i]) + len(e.Payload) + len(e.Key) + len(e.Type)
		for _, a := range e.Metadata {
			n += len(a.Name) + len(a.Value)
		}
	}
	return n
}

func byFirst(c *commit, first int64) int {
	switch {
	case c.First < first:
		return -1
	case c.First > first:
		return 1
	}
	return 0
}

// put remembers the document, and forgets those that came first.
func (r *commitCache) put(c *commit) {
	n := c.bytes()
	if n > cacheLargestDoc {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.parts == nil {
		r.parts = make(map[partitionKey][]*commit)
	}
	k := partitionKey{c.Stream, c.Partition}
	at, known := slices.BinarySearchFunc(r.parts[k], c.First, byFirst)
	if known {
		return
	}
	r.parts[k] = slices.Insert(r.parts[k], at, c)
	r.queue = append(r.queue, c)
	r.bytes += n
	for r.bytes > cacheBytes {
		r.drop()
	}
}

func (r *commitCache) drop() {
	c := r.queue[0]
	r.queue[0] = nil
	r.queue = r.queue[1:]
	r.bytes -= c.bytes()
	k := partitionKey{c.Stream, c.Partition}
	if at, known := slices.BinarySearchFunc(r.parts[k], c.First, byFirst); known {
		r.parts[k] = slices.Delete(r.parts[k], at, at+1)
	}
	if len(r.parts[k]) == 0 {
		delete(r.parts, k)
	}
}

// forget drops what is remembered of the stream.
func (r *commitCache) forget(stream string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.queue[:0]
	for _, c := range r.queue {
		if c.Stream == stream {
			r.bytes -= c.bytes()
			delete(r.parts, partitionKey{c.Stream, c.Partition})
		} else {
			kept = append(kept, c)
		}
	}
	clear(r.queue[len(kept):])
	r.queue = kept
}

// find returns the document that holds the sequence, or nil.
func (r *commitCache) find(stream string, partition int, sequence int64) *commit {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.parts[partitionKey{stream, partition}]
	at, exactly := slices.BinarySearchFunc(list, sequence, byFirst)
	if !exactly {
		at--
	}
	if at < 0 || list[at].Last < sequence {
		return nil
	}
	return list[at]
}
