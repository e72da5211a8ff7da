package backendtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rheo-go/rheo"
)

// modelConcurrent lets six workers loose on four groups, drains these, and looks
// for an explanation of everything that was returned.
func modelConcurrent(s *subject) {
	rng := s.random()
	h := &history{subject: s, partitions: modelPartitions}
	if !s.backend.Capabilities().Guarantees.Partitions {
		h.partitions = 1
	}
	s.create(h.partitions)
	replays := s.backend.Capabilities().Guarantees.Replay
	h.addGroup("plain", rheo.GroupConfig{MaxAttempts: 4}, false)
	h.addGroup("replayed", rheo.GroupConfig{MaxAttempts: 3}, replays)
	h.addGroup("ordered", rheo.GroupConfig{MaxAttempts: 3, Ordering: rheo.OrderingPartition}, false)
	h.addGroup("partly", rheo.GroupConfig{MaxAttempts: 2, Partitions: rng.Perm(h.partitions)[:max(1, h.partitions-1)]}, replays)
	const workers = 6
	seeds := make([]uint64, workers)
	for i := range seeds {
		seeds[i] = rng.Uint64()
	}
	steps := s.scaled(300)
	instances := []*rheo.Instance{s.in}
	if s.config.Join != nil {
		instances = append(instances, s.join())
	}
	s.together(workers, func(who int) error {
		w := &worker{caller: caller{h, instances[who%len(instances)]}, rng: newRandom(seeds[who]), who: who, held: make(map[*story][]*handed)}
		for range steps {
			if err := w.step(); err != nil {
				return fmt.Errorf("worker %d: %w", who, err)
			}
		}
		return nil
	})
	h.drainAll()
	h.explain()
}

func (h *history) addGroup(name string, c rheo.GroupConfig, replays bool) {
	h.Helper()
	h.group(name, c)
	if len(c.Partitions) == 0 {
		for p := range h.partitions {
			c.Partitions = append(c.Partitions, p)
		}
	}
	h.groups = append(h.groups, &story{name: name, config: c, replays: replays})
}

// drainAll acks what is still to come in every group.
func (h *history) drainAll() {
	h.Helper()
	c := caller{h, h.in}
	for _, g := range h.groups {
		for round := 0; h.lag(g.name) > 0; round++ {
			if round > 1000 {
				h.Fatalf("group %s: after %d rounds the lag is still %d: %+v", g.name, round, h.lag(g.name), h.info(g.name))
			}
			got, err := c.fetch(g, rheo.FetchOptions{Max: 200})
			h.noError(err)
			if len(got) == 0 {
				h.clock.Advance(time.Minute)
				continue
			}
			settlements := make([]rheo.Settlement, len(got))
			for i := range settlements {
				settlements[i].Outcome = rheo.OutcomeAck
			}
			h.noError(c.settle(got, settlements))
		}
	}
}

// A worker makes random calls. The leases that it got are its own.
type worker struct {
	caller
	rng  *rand.Rand
	who  int
	made int
	held map[*story][]*handed
}

func (w *worker) step() error {
	g := w.groups[w.rng.IntN(len(w.groups))]
	switch n := w.rng.IntN(100); {
	case n < 14:
		return w.appendSome()
	case n < 46:
		return w.fetchSome(g)
	case n < 74:
		return w.settleSome(g)
	case n < 82:
		return w.renewSome(g)
	case n < 90:
		w.clock.Advance(time.Duration(w.rng.IntN(8)) * time.Second)
		return nil
	case n < 97:
		return w.observe(g)
	default:
		return w.replaySome(g)
	}
}

func (w *worker) appendSome() error {
	batch := make([]rheo.Event, 1+w.rng.IntN(5))
	for i := range batch {
		w.made++
		batch[i] = event(fmt.Sprintf("%d/%d", w.who, w.made))
		if w.rng.IntN(2) == 0 {
			batch[i].Pinned, batch[i].Partition = true, w.rng.IntN(w.partitions)
		} else {
			batch[i].Key = fmt.Sprint("key ", w.rng.IntN(10))
		}
	}
	if err := w.append(batch); err != nil || w.rng.IntN(8) > 0 {
		return err
	}
	return w.append(batch) // as after an outcome that is not known
}

func (w *worker) fetchSome(g *story) error {
	o := rheo.FetchOptions{Max: 1 + w.rng.IntN(10), LeaseDuration: time.Duration(3+w.rng.IntN(40)) * time.Second, ConsumerID: fmt.Sprint("worker ", w.who)}
	if w.rng.IntN(3) == 0 {
		o.Partitions = g.config.Partitions[:1+w.rng.IntN(len(g.config.Partitions))]
	}
	got, err := w.fetch(g, o)
	w.held[g] = append(w.held[g], got...)
	return err
}

// pick returns some of the leases that the worker got from the group, recent ones
// most of all, good or lost, each once.
func (w *worker) pick(g *story) []*handed {
	all := w.held[g]
	recent := all[max(0, len(all)-20):]
	picked := slices.Clone(recent)
	w.rng.Shuffle(len(picked), func(i, j int) { picked[i], picked[j] = picked[j], picked[i] })
	return picked[:min(len(picked), w.rng.IntN(8))]
}

func (w *worker) settleSome(g *story) error {
	held := w.pick(g)
	settlements := make([]rheo.Settlement, len(held))
	for i := range settlements {
		outcome := []rheo.Outcome{1, 1, 1, 1, 1, 2, 2, 3, 4}[w.rng.IntN(9)]
		delay := time.Duration(w.rng.IntN(2)*w.rng.IntN(15)) * time.Second
		settlements[i] = rheo.Settlement{Outcome: outcome, Delay: delay, Reason: fmt.Sprint("reason ", w.rng.IntN(1000))}
	}
	return w.settle(held, settlements)
}

func (w *worker) renewSome(g *story) error {
	return w.renew(time.Duration(1+w.rng.IntN(40))*time.Second, w.pick(g))
}

func (w *worker) replaySome(g *story) error {
	if !g.replays {
		return nil
	}
	if w.rng.IntN(3) == 0 {
		from := int64(1 + w.rng.IntN(200))
		return w.replay(g, rheo.ReplaySelection{FromSequence: from}, func(_ int, sequence int64) bool { return sequence >= from })
	}
	w.mu.Lock()
	known := slices.Clone(w.ids)
	w.mu.Unlock()
	if len(known) == 0 {
		return nil
	}
	ids := make([]string, 1+w.rng.IntN(10))
	for i := range ids {
		ids[i] = known[w.rng.IntN(len(known))]
	}
	// The log is not written down yet, so IDs are looked up when all is over.
	places := func(p int, sequence int64) bool { return slices.Contains(ids, w.idAt(p, sequence)) }
	if w.rng.IntN(2) == 0 {
		return w.replay(g, rheo.ReplaySelection{IDs: ids}, places)
	}
	return w.replay(g, rheo.ReplaySelection{Query: &rheo.Query{Where: []rheo.Condition{rheo.Where("id", rheo.OpIn, ids)}}}, places)
}
