package redis

import (
	"strconv"
	"strings"

	"github.com/rheo-go/rheo"
)

// escape makes any name fit for a key: what ends a part of it, or means something to
// a cluster, is written as %XX.
var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D", ":", "%3A").Replace

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }

// registryKey is the hash of the streams: name → description.
func (b *Backend) registryKey() string { return b.options.Prefix + ":streams" }

// groupsKey is the hash of a stream's groups: name → configuration.
func (b *Backend) groupsKey(stream string) string {
	return b.options.Prefix + ":{" + escape(stream) + "}:groups"
}

// partitionKeys are the keys of one partition. The braces put them into one slot of a
// cluster, with those of its groups.
type partitionKeys struct {
	base string
	meta string    // hash: high watermark and the like
	log  string    // stream
	late string    // sorted set: batches whose IDs rise, but not above those before them
	ids  [2]string // hashes: other event ID → sequence; the two generations of the window
}

func (b *Backend) partitionKeys(stream string, partition int) partitionKeys {
	base := b.options.Prefix + ":{" + escape(stream) + ":" + strconv.Itoa(partition) + "}:"
	return partitionKeys{base: base, meta: base + "meta", log: base + "log", late: base + "late", ids: [2]string{base + "ids:0", base + "ids:1"}}
}

// groupKeys are the keys of a group in one partition.
type groupKeys struct {
	*partitionKeys
	state string // hash: where the group stands
	why   string // hash: sequence → reason of the last nack, while the delivery is open
	dead  string // sorted set of dead letters by sequence
	whole string // hash: token → the deliveries of a fetch that nothing has touched since
}

func (p *partitionKeys) of(group string) groupKeys {
	name := escape(group)
	return groupKeys{partitionKeys: p, state: p.base + "g:" + name, why: p.base + "why:" + name, dead: p.base + "dead:" + name, whole: p.base + "whole:" + name}
}

func (g *groupKeys) all() []string { return []string{g.meta, g.log, g.state, g.why, g.dead, g.whole} }

// mostSequence is the largest that the scripts' numbers hold exactly.
const mostSequence = 1 << 53

// exact bounds a sequence that a caller gave.
func exact(sequence int64) int64 { return min(sequence, mostSequence) }

func staleLease(l *rheo.Lease) error {
	return rheo.Errorf(rheo.ErrStaleLease,
		"lease %q on %s/%d/%d for group %q is no longer held: it was settled, expired and taken again, or replayed",
		l.LeaseID, l.Stream, l.Partition, l.Sequence, l.Group)
}
