package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Workload is what one measurement does. It ends when all events are through,
// or else when the time is up: what is done by then gives the rate.
type Workload struct {
	Events  int           // at most 1,000,000
	Batch   int           // events per Append, and at most per Consume
	Callers int           // goroutines that append, and as many that consume
	Timeout time.Duration // of the timed part
	Backlog bool          // a cycle consumes only when all is appended
	History int           // events that have been through, untimed, before; at most 1,000,000
}

func (w Workload) validate() error {
	switch {
	case w.Events < 1 || w.Events > maxEvents:
		return fmt.Errorf("bench: events must be 1 to %d, not %d", maxEvents, w.Events)
	case w.Batch < 1:
		return fmt.Errorf("bench: batch must be at least 1, not %d", w.Batch)
	case w.Callers < 1:
		return fmt.Errorf("bench: callers must be at least 1, not %d", w.Callers)
	case w.History < 0 || w.History > maxEvents:
		return fmt.Errorf("bench: history must be 0 to %d events, not %d", maxEvents, w.History)
	case w.Timeout <= 0:
		return fmt.Errorf("bench: timeout must be positive, not %v", w.Timeout)
	}
	return nil
}

// Result is what one measurement found.
type Result struct {
	Events  int           // through, and confirmed
	Elapsed time.Duration // from the first Append to the last confirmation
	P50     time.Duration // of one Append
	P99     time.Duration
	Allocs  float64 // per event, of the whole process: a server in it counts
	Log     float64 // bytes per event that the store has written ahead; 0 if it does not tell
	Partial bool    // the time was up before all events were through
}

// writesAhead is a Session that tells how much its store has written ahead.
type writesAhead interface {
	LogPosition(ctx context.Context) (int64, error)
}

// PerSecond returns the events per second.
func (r Result) PerSecond() float64 { return float64(r.Events) / r.Elapsed.Seconds() }

// MeasureAppend measures appending alone.
func MeasureAppend(ctx context.Context, subject Subject, w Workload) (Result, error) {
	return measure(ctx, subject, &run{workload: w}, false)
}

// MeasureCycle measures append, delivery and settlement, all going on at once.
// An event counts when it is settled.
func MeasureCycle(ctx context.Context, subject Subject, w Workload) (Result, error) {
	return measure(ctx, subject, &run{workload: w}, true)
}

// measure opens the subject in a directory of its own, runs it under the clock,
// with a consumer or without, and leaves nothing behind.
func measure(ctx context.Context, subject Subject, r *run, cycle bool) (result Result, err error) {
	if err := r.workload.validate(); err != nil {
		return Result{}, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("bench: measuring %s: %w", subject.Name(), err)
		}
	}()
	dir, err := os.MkdirTemp("", "rheo-bench-")
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	session, err := subject.Open(ctx, dir)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()

	if cycle {
		if err := session.Subscribe(ctx); err != nil {
			return Result{}, err
		}
	}
	if past := r.past(); past != nil {
		if err := past.drive(cycle)(ctx, session); err != nil {
			return Result{}, err
		}
	}
	r.makeBatches()
	return r.timed(ctx, session, r.drive(cycle))
}

// run is one measurement under way.
type run struct {
	workload Workload
	batches  [][]Event
	handle   func(payload []byte) // what consumers do with an event; nil: nothing

	taken   atomic.Int64 // batches handed to callers
	through atomic.Int64 // events that count: appended or, in a cycle, settled

	mu        sync.Mutex
	latencies []time.Duration // of Append
}

// past is the run that makes the workload's history, if there is to be one.
func (r *run) past() *run {
	if r.workload.History == 0 {
		return nil
	}
	const batch = 500
	past := &run{workload: Workload{Events: r.workload.History, Batch: batch, Callers: 1}}
	past.makeBatches()
	return past
}

func (r *run) makeBatches() {
	r.batches = slices.Collect(slices.Chunk(makeEvents(r.workload.Events), r.workload.Batch))
}

// drive returns what the run does.
func (r *run) drive(cycle bool) func(context.Context, Session) error {
	if cycle {
		return r.fullCycle
	}
	return r.appendOnly
}

// timed runs drive under the workload's time limit and sums up.
func (r *run) timed(ctx context.Context, session Session, drive func(context.Context, Session) error) (Result, error) {
	logBefore, err := logPosition(ctx, session)
	if err != nil {
		return Result{}, err
	}
	runtime.GC() // what earlier runs have left is not this one's to collect
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)

	limited, cancel := context.WithTimeout(ctx, r.workload.Timeout)
	defer cancel()
	start := time.Now()
	err = drive(limited, session)
	elapsed := time.Since(start)
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	timeUp := err != nil && limited.Err() != nil // the error only says that the time was up
	if err != nil && !timeUp {
		return Result{}, err
	}
	runtime.ReadMemStats(&after)
	events := r.through.Load()
	if events == 0 {
		return Result{}, fmt.Errorf("no event got through in %v: %w", elapsed.Round(time.Millisecond), err)
	}
	logAfter, err := logPosition(ctx, session)
	if err != nil {
		return Result{}, err
	}
	result := Result{Events: int(events), Elapsed: elapsed, Partial: timeUp}
	result.Log = float64(logAfter-logBefore) / float64(events)
	result.P50, result.P99 = percentiles(r.latencies)
	result.Allocs = float64(after.Mallocs-before.Mallocs) / float64(events)
	return result, nil
}

func logPosition(ctx context.Context, session Session) (int64, error) {
	if s, ok := session.(writesAhead); ok {
		return s.LogPosition(ctx)
	}
	return 0, nil
}

// appendOnly appends all batches.
func (r *run) appendOnly(ctx context.Context, session Session) error {
	produce := func(ctx context.Context) error { return r.produce(ctx, session, &r.through) }
	return together(ctx, slices.Repeat([]worker{produce}, r.workload.Callers))
}

// fullCycle appends all batches while as many consumers take the events.
func (r *run) fullCycle(ctx context.Context, session Session) error {
	waiting, stopWaiting := context.WithCancel(ctx)
	defer stopWaiting()
	var appended atomic.Int64
	produce := func(ctx context.Context) error { return r.produce(ctx, session, &appended) }
	consume := func(ctx context.Context) error {
		defer context.AfterFunc(ctx, stopWaiting)() // another worker's failure ends the waiting, too
		return r.consume(waiting, session, stopWaiting)
	}
	stages := [][]worker{{produce, consume}}
	if r.workload.Backlog {
		stages = [][]worker{{produce}, {consume}}
	}
	for _, workers := range stages {
		if err := together(ctx, slices.Repeat(workers, r.workload.Callers)); err != nil {
			return err
		}
	}
	return session.Flush(ctx)
}

// produce appends batches until none is left, and adds their events to appended.
func (r *run) produce(ctx context.Context, session Session, appended *atomic.Int64) error {
	var latencies []time.Duration
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.latencies = append(r.latencies, latencies...)
	}()
	for ctx.Err() == nil {
		i := int(r.taken.Add(1)) - 1
		if i >= len(r.batches) {
			return nil
		}
		start := time.Now()
		if err := session.Append(ctx, r.batches[i]); err != nil {
			return err
		}
		latencies = append(latencies, time.Since(start))
		appended.Add(int64(len(r.batches[i])))
	}
	return ctx.Err()
}

// consume takes events until all are settled, and then calls finish, so that
// consumers which still wait for more give up.
func (r *run) consume(ctx context.Context, session Session, finish func()) error {
	handle := r.handle
	if handle == nil {
		handle = func([]byte) {}
	}
	all := int64(r.workload.Events)
	for r.through.Load() < all {
		n, err := session.Consume(ctx, r.workload.Batch, handle)
		if r.through.Add(int64(n)) >= all {
			finish()
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type worker = func(context.Context) error

// together runs the workers and returns when all have ended; the first error
// ends them.
func together(ctx context.Context, workers []worker) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(workers))
	var running sync.WaitGroup
	for i, work := range workers {
		running.Go(func() {
			if errs[i] = work(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// percentiles returns the median and the 99th percentile.
func percentiles(d []time.Duration) (p50, p99 time.Duration) {
	if len(d) == 0 {
		return 0, 0
	}
	slices.Sort(d)
	return d[len(d)/2], d[len(d)*99/100]
}
