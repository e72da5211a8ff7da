package redis

import (
	"context"

	"github.com/rheo-go/rheo"
)

var restoreScript = load("restore")

// onStream runs a script on each of the partitions, and explains what was lost.
func (b *Backend) onStream(ctx context.Context, i intent, s *stream, calls ...*call) (ran int, err error) {
	ran, err = b.run(ctx, i, calls...)
	if err != nil {
		err = b.explain(ctx, s, "", err)
	}
	return ran, err
}

// onGroup runs a script of the group on each of the partitions. One whose consumer
// group somebody destroyed is made again, and the script run again.
func (b *Backend) onGroup(ctx context.Context, i intent, g *group, partitions []int, calls ...*call) (ran int, err error) {
	ran, err = b.run(ctx, i, calls...)
	var again []*call
	for at, c := range calls {
		if code(c.err) != codeNoGroup {
			continue
		}
		if err := b.restore(ctx, g, partitions[at]); err != nil {
			return ran, err
		}
		again = append(again, c)
	}
	if len(again) > 0 {
		more, _ := b.run(ctx, i, again...)
		ran, err = ran+more, nil
		for _, c := range calls {
			if err == nil {
				err = c.err
			}
		}
	}
	if err != nil {
		err = b.explain(ctx, g.stream, g.name, err)
	}
	return ran, err
}

// restore makes a consumer group again.
func (b *Backend) restore(ctx context.Context, g *group, partition int) error {
	keys := g.keys[partition]
	reply, err := b.one(ctx, writing, restoreScript, keys.all(), g.name)
	if err != nil {
		return b.explain(ctx, g.stream, g.name, err)
	}
	if numbers := integers(reply); len(numbers) == 2 && numbers[0] == 1 {
		b.options.Logger.WarnContext(ctx, "a Redis consumer group was destroyed by somebody; it was made again at its last known frontier, and deliveries repeat",
			"key", keys.log, "group", g.name, "frontier", numbers[1])
	}
	return nil
}

// explain says what it means that keys are missing. group is "" if none is concerned.
func (b *Backend) explain(ctx context.Context, s *stream, group string, err error) error {
	switch code(err) {
	case codeLostMeta:
		return b.lostPartition(ctx, s, lostKey(err), err)
	case codeLostLog:
		return lostLog(s.name, lostKey(err), err)
	case codeLostGroup:
		return b.lostState(ctx, s, group, err)
	}
	return err
}

// lostPartition is told of a stream whose partition has no meta. If the registry does
// not know the stream either, there is none.
func (b *Backend) lostPartition(ctx context.Context, s *stream, key string, cause error) error {
	b.streams.CompareAndDelete(s.name, s)
	there, err := b.registered(ctx, b.registryKey(), s.name)
	switch {
	case err != nil:
		return err
	case there == "":
		return streamNotFound(s.name)
	}
	return rheo.WrapError(rheo.ErrFailed, cause,
		"Redis has lost a partition of stream %q: key %s is not there. A server came back without its data, or evicted it; restore it from a backup",
		s.name, key)
}

// lostState is told of a group without its hash in a partition.
func (b *Backend) lostState(ctx context.Context, s *stream, group string, cause error) error {
	b.groups.Delete(groupKey{s.name, group})
	there, err := b.registered(ctx, b.groupsKey(s.name), group)
	switch {
	case err != nil:
		return err
	case there == "":
		return groupNotFound(s.name, group)
	}
	return rheo.WrapError(rheo.ErrFailed, cause,
		"Redis has lost where group %q of stream %q stands: key %s is not there. Restore it from a backup, or reset the group",
		group, s.name, lostKey(cause))
}

// lostKey is the key that a script's error names.
func lostKey(err error) string {
	_, key := serverText(err)
	return key
}

// lostLog is the error of a partition whose events are not there.
func lostLog(stream, key string, cause error) error {
	return rheo.WrapError(rheo.ErrFailed, cause,
		"Redis has lost the events of a partition of stream %q: key %s is not there, but its neighbours are. It was evicted or deleted; restore it from a backup, and set maxmemory-policy noeviction",
		stream, key)
}
