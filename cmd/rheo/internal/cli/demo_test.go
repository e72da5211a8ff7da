package cli

import (
	"os"
	"strings"
	"testing"
)

// TestDemo takes the tour in a temporary directory, which is gone afterwards.
func TestDemo(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	if code := Run(t.Context(), []string{"demo"}, nil, &out, &errs); code != exitDone {
		t.Fatalf("exit %d\n%s%s", code, &out, &errs)
	}
	contains(t, out.String(),
		"1,707 events appended in ", "The same file once more, as after a lost connection: 0 appended, 1,707 known",
		"archive handled 1,707 events", "alarms is 1,707 behind",
		"came again as attempt 2", "The two processes together saw 1,707 IDs; alarms is 0 behind",
		`3 attempts: magnitude "strong" is not a number`, "The handler was called 3 times; alarms is 0 behind",
		"1 dead letter redriven and handled; 0 left; alarms is 0 behind",
		"39 earthquakes of magnitude 5 and more", "M 6.4, 22km NNE of Hualian, Taiwan",
		"39 events opened again, 39 handled, 39 of them strong; alarms is 0 behind", "archive, which has yet to see the one broken event, is 1 behind",
	)
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 130 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	_, dir, _ := strings.Cut(out.String(), "export RHEO_STORE=embedded:")
	dir, _, _ = strings.Cut(dir, "\n")
	if _, err := os.Stat(dir); dir == "" || !os.IsNotExist(err) {
		t.Errorf("%q is left behind: %v", dir, err)
	}
}

// TestDemoStays takes the tour in a store that stays.
func TestDemoStays(t *testing.T) {
	t.Parallel()
	onEach(t, func(s *shellOf) {
		contains(s.t, s.ok("demo"), "The store stays", "The two processes together saw 1,707 IDs; alarms is 0 behind")
		contains(s.t, s.ok("group", "info", "quakes", "alarms"), "0 events behind")
	})
}
