package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// progress shows on a terminal how far a long piece of work is. A nil one shows
// nothing.
type progress struct {
	w     io.Writer
	label string
	total int64        // 0 if unknown
	done  func() int64 // how far it is
	began time.Time

	stopped chan struct{}
	drawing sync.WaitGroup
}

// Short work shows nothing.
const (
	progressAfter = 500 * time.Millisecond
	progressEvery = 100 * time.Millisecond
)

// progress starts to show the work's progress, if stderr is a terminal.
func (a *app) progress(label string, total int64, done func() int64) *progress {
	if !isTerminal(a.stderr) {
		return nil
	}
	p := &progress{w: a.stderr, label: label, total: total, done: done, began: time.Now(), stopped: make(chan struct{})}
	p.drawing.Go(p.run)
	return p
}

func (p *progress) run() {
	wait := time.NewTimer(progressAfter)
	defer wait.Stop()
	drawn := 0
	for {
		select {
		case <-wait.C:
			text := p.text()
			fmt.Fprintf(p.w, "\r%s%s", text, strings.Repeat(" ", max(0, drawn-utf8.RuneCountInString(text))))
			drawn = utf8.RuneCountInString(text)
			wait.Reset(progressEvery)
		case <-p.stopped:
			if drawn > 0 {
				fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", drawn))
			}
			return
		}
	}
}

func (p *progress) text() string {
	passed := time.Since(p.began).Round(time.Second)
	if p.total <= 0 {
		return fmt.Sprintf("%s  %v", p.label, passed)
	}
	const width = 30
	done := min(max(p.done(), 0), p.total)
	full := int(done * width / p.total)
	return fmt.Sprintf("%s  [%s%s] %d%%  %v", p.label, strings.Repeat("#", full), strings.Repeat(".", width-full), done*100/p.total, passed)
}

// stop takes the progress off the terminal.
func (p *progress) stop() {
	if p == nil {
		return
	}
	close(p.stopped)
	p.drawing.Wait()
}

// isTerminal says whether the output is a terminal: a character device, and not
// the one that swallows everything.
func isTerminal(output any) bool {
	if s, ok := output.(*stream); ok {
		output = s.w
	}
	file, ok := output.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
