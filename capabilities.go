package rheo

// Capabilities is what a backend declares of itself: what a caller may rely on,
// apart from the means by which it is done. At-least-once delivery, fencing by
// the store and order within a partition are not among them: every backend has
// these, or it is none.
type Capabilities struct {
	Guarantees Guarantees `json:"guarantees"`
	Mechanisms Mechanisms `json:"mechanisms"`
}

// Guarantees are promises to the caller.
type Guarantees struct {
	Durable             bool `json:"durable"`              // survives the process
	Distributed         bool `json:"distributed"`          // several machines may share the store
	Partitions          bool `json:"partitions"`           // streams may have more than one partition
	ContiguousFrontier  bool `json:"contiguous_frontier"`  // lag counts from the first hole
	Replay              bool `json:"replay"`               // Replay and ResetGroup work
	OrderedScan         bool `json:"ordered_scan"`         // queries come sorted
	SecondaryIndexes    bool `json:"secondary_indexes"`    // queries need not walk the stream
	IdempotentAppend    bool `json:"idempotent_append"`    // for ever, not within a window
	AtomicBatch         bool `json:"atomic_batch"`         // across partitions too
	TransactionalAppend bool `json:"transactional_append"` // in the host's own transaction
	TransactionalSettle bool `json:"transactional_settle"` // likewise
}

// Mechanisms are the means.
type Mechanisms struct {
	CompareAndSet bool `json:"compare_and_set"`
	Notifications bool `json:"notifications"` // implements [Waiter]
	ChangeFeed    bool `json:"change_feed"`
	NativeGroups  bool `json:"native_groups"` // the store's own consumer groups,
	NativePending bool `json:"native_pending"`
	NativeReclaim bool `json:"native_reclaim"`
	NativeLag     bool `json:"native_lag"`
	BlockingReads bool `json:"blocking_reads"`
}
