package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// errInterrupted is why the context ended, if a signal ended it.
var errInterrupted = errors.New("interrupted")

// untilSignal returns a context that the first Ctrl-C or SIGTERM ends, so that
// the command finishes cleanly. The second one ends the process at once, with
// the commands that it has started.
func (a *app) untilSignal(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-signals:
			case <-done:
				return
			}
			if n == 2 {
				a.children.kill()
				a.quit(exitFailed)
				return
			}
			cancel(errInterrupted)
		}
	})
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		watch.Wait()
		cancel(nil)
	}
}
