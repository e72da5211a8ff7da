package memory

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/delivery"
	"github.com/rheo-go/rheo/ledger"
)

type group struct {
	name      string
	config    rheo.GroupConfig
	plan      delivery.Group
	createdAt time.Time
	turn      atomic.Uint64
	progress  map[int]*progress // by partition; the map itself never changes
}

// progress is how far a group is in one partition.
type progress struct {
	start int64 // the cursor it was created with

	mu     sync.Mutex
	ledger *ledger.Ledger
	dead   []deadLetter // ascending by sequence
}

// CreateGroup implements [rheo.Backend].
func (b *Backend) CreateGroup(ctx context.Context, stream, name string, config rheo.GroupConfig) error {
	s, err := b.stream(ctx, stream)
	if err != nil {
		return err
	}
	g := &group{
		name: name, config: config, plan: delivery.GroupOf(config),
		createdAt: b.now(), progress: make(map[int]*progress),
	}
	for _, p := range config.Partitions {
		cursor, err := s.startCursor(ctx, config.Start, p)
		if err != nil {
			return err
		}
		g.progress[p] = &progress{start: cursor, ledger: ledger.New(cursor)}
	}
	if _, taken := s.groups.LoadOrStore(name, g); taken {
		return rheo.Errorf(rheo.ErrAlreadyExists, "group %q on stream %q", name, stream)
	}
	return nil
}

func (s *stream) startCursor(ctx context.Context, start rheo.Start, p int) (int64, error) {
	v := s.partitions[p].view()
	return delivery.StartCursor(ctx, start, p, v.high(), func(context.Context, int) (int64, error) {
		return v.seekTime(start.Time), nil
	})
}

// Groups implements [rheo.Backend].
func (b *Backend) Groups(ctx context.Context, stream string) ([]string, error) {
	s, err := b.stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	var names []string
	s.groups.Range(func(name, _ any) bool {
		names = append(names, name.(string))
		return true
	})
	slices.Sort(names)
	return names, nil
}

// Group implements [rheo.Backend].
func (b *Backend) Group(ctx context.Context, stream, name string) (rheo.GroupInfo, error) {
	s, g, err := b.group(ctx, stream, name)
	if err != nil {
		return rheo.GroupInfo{}, err
	}
	info := rheo.GroupInfo{
		Stream: stream, Group: name, CreatedAt: g.createdAt,
		MaxAttempts: g.config.MaxAttempts, Ordering: g.config.Ordering,
	}
	now := b.now()
	for _, p := range g.config.Partitions {
		partition, dead := g.progress[p].info(s.partitions[p], now)
		info.Partitions = append(info.Partitions, partition)
		info.DeadLetters += int64(dead)
	}
	return info, nil
}

func (pr *progress) info(p *partition, now time.Time) (info rheo.PartitionInfo, dead int) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	v := p.view()
	info = delivery.PartitionInfo(p.number, pr.ledger, v.high(), 0, now)
	if info.Lag > 0 {
		info.OldestUnacked = max(0, now.Sub(v.at(info.Frontier+1).Timestamp))
	}
	return info, len(pr.dead)
}

// Fetch implements [rheo.Backend].
func (b *Backend) Fetch(ctx context.Context, r rheo.FetchRequest) ([]*rheo.Lease, error) {
	s, g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	now := b.now()
	fetch, err := delivery.NewFetch(r, g.plan, now)
	if err != nil {
		return nil, err
	}
	var leases []*rheo.Lease
	for _, p := range fetch.Order(g.turn.Add(1)) {
		spans := g.progress[p].claim(fetch, s.partitions[p].view().high(), now)
		if len(spans) > 0 {
			fetch.Took(spans)
			v := s.partitions[p].view() // anew: what came back may have been appended since
			leases = fetch.Leases(leases, p, spans, func(sequence int64, e *rheo.Event) {
				*e = v.at(sequence).Clone()
			})
		}
		if fetch.Done() {
			break
		}
	}
	return leases, nil
}

func (pr *progress) claim(fetch *delivery.Fetch, high int64, now time.Time) []ledger.Span {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	claimed := fetch.Apply(pr.ledger, high)
	pr.bury(claimed.Dead, now)
	return claimed.Spans
}

// Renew implements [rheo.Backend].
func (b *Backend) Renew(ctx context.Context, r rheo.RenewRequest) ([]rheo.RenewResult, error) {
	_, g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	renew := delivery.NewRenew(r, g.plan, b.now())
	for _, p := range renew.Partitions() {
		pr := g.progress[p]
		pr.mu.Lock()
		renew.Apply(p, pr.ledger)
		pr.mu.Unlock()
	}
	return renew.Results(), nil
}

// Settle implements [rheo.Backend].
func (b *Backend) Settle(ctx context.Context, r rheo.SettleRequest) ([]error, error) {
	s, g, err := b.group(ctx, r.Stream, r.Group)
	if err != nil {
		return nil, err
	}
	now := b.now()
	settle := delivery.NewSettle(r, g.plan, now)
	for _, p := range settle.Partitions() {
		pr := g.progress[p]
		pr.mu.Lock()
		dead, _ := settle.Apply(p, pr.ledger, g.config.MaxAttempts)
		pr.bury(dead, now)
		pr.mu.Unlock()
	}
	if givesBack(r.Settlements) {
		s.watchers.Wake()
	}
	return settle.Results(), nil
}

func givesBack(settlements []rheo.Settlement) bool {
	return slices.ContainsFunc(settlements, func(s rheo.Settlement) bool {
		return s.Outcome == rheo.OutcomeNack || s.Outcome == rheo.OutcomeRelease
	})
}
