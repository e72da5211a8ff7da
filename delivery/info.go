package delivery

import (
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/ledger"
)

// GroupOf returns what the plans need of a group's configuration.
func GroupOf(c rheo.GroupConfig) Group {
	return Group{
		Partitions:  c.Partitions,
		MaxAttempts: c.MaxAttempts,
		Ordered:     c.Ordering == rheo.OrderingPartition,
	}
}

// PartitionInfo describes a partition of a group. The caller adds OldestUnacked:
// the age of the event just above the frontier, if Lag is not 0.
func PartitionInfo(partition int, l *ledger.Ledger, high int64, maxRuns int, now time.Time) rheo.PartitionInfo {
	if maxRuns == 0 {
		maxRuns = ledger.DefaultMaxRuns
	}
	counts := l.Count(now.UnixMicro())
	return rheo.PartitionInfo{
		Partition:     partition,
		Cursor:        l.Cursor(),
		Frontier:      l.Frontier(),
		HighWatermark: high,
		Lag:           max(0, high-l.Frontier()), // a group may start above the log's end
		InFlight:      counts.InFlight,
		Waiting:       counts.Waiting,
		Full:          l.Len() >= maxRuns,
	}
}
