package rheo

import (
	"context"
	"maps"
	"time"
)

// observedAppend tells the observer of an append, or of a preparation for one, and
// hands to do what to add to the events' metadata.
func (i *Instance) observedAppend(
	ctx context.Context, start AppendStart, do func(ctx context.Context, metadata map[string]string) ([]AppendResult, error),
) ([]AppendResult, error) {
	observer := i.observers.append
	start.Instance = i.name
	ctx, metadata := observer.StartAppend(ctx, start)
	began := time.Now()
	results, err := do(ctx, metadata)
	end := AppendEnd{AppendStart: start, Duration: time.Since(began), Reason: Classify(err), Err: err}
	end.Appended, end.Duplicates = tallyAppend(results)
	observer.EndAppend(ctx, end)
	return results, err
}

// withMetadata returns the event's metadata and what is added to it, in a map of
// its own.
func withMetadata(own, added map[string]string) map[string]string {
	if len(added) == 0 {
		return own
	}
	all := make(map[string]string, len(own)+len(added))
	maps.Copy(all, added)
	maps.Copy(all, own)
	return all
}
