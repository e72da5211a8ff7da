package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
)

func TestNumber(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 1707: "1,707", 999_999: "999,999", 12_345_678: "12,345,678",
		-7: "-7", -999: "-999", -1000: "-1,000", -123_456: "-123,456",
	} {
		if got := number(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "-", 1500 * time.Microsecond: "2ms", 61 * time.Second: "1m1s", 90*time.Minute + 10*time.Second: "1h30m", 72 * time.Hour: "3 days",
	} {
		if got := age(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	table := newTable(&b, ">N", "NAME")
	for _, row := range [][]string{{"1", "größer"}, {"1,000", "b"}} {
		if err := table.add(row...); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.flush(); err != nil {
		t.Fatal(err)
	}
	if want := "    N  NAME\n    1  größer\n1,000  b\n"; b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	for store, leaks := range map[string][]string{
		"postgres://user:s3cret@host/db":              {"s3cret"},
		"postgres://user:p%40ss@host/db":              {"p%40ss", "p@ss"},
		"redis://:s3cret@host:6379/0":                 {"s3cret"},
		"postgres://user:a/b@c@host/db":               {"a/b@c"},
		"postgres://host/db?user=x&password=s3cret":   {"s3cret"},
		"mongodb://u:s3cret@h1,h2/db?replicaSet=rs":   {"s3cret"},
		"postgres://h/db?sslpassword=abc&sslmode=off": {"abc"},
		"postgres://user:a?b@host/db":                 {"a?b"},
		"postgres://user:s3cret@host/db?x=a@b":        {"s3cret"},
		"--store=postgres://user:s3cret@host/db":      {"s3cret"},
	} {
		a := &app{words: []string{store}}
		text := a.redact("cannot open " + store + ": " + strings.Join(leaks, " "))
		var log strings.Builder
		a.stderr = &log
		a.logger().Warn("store "+store, "error", errors.New(store), "words", leaks)
		text += log.String()
		for _, leak := range leaks {
			if strings.Contains(text, leak) {
				t.Errorf("%s leaks in %s", leak, text)
			}
		}
		if !strings.Contains(text, "xxxxx") {
			t.Errorf("nothing redacted in %s", text)
		}
	}
	a := &app{storeFlag: "postgres://postgres:postgres@h/postgres"}
	if got, want := a.redact(a.storeFlag+" is a postgres: store"), "postgres://postgres:xxxxx@h/postgres is a postgres: store"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestFlagValues(t *testing.T) {
	t.Parallel()
	noon := time.Date(2018, 2, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2018-02-01T12:00:00Z": noon, "2018-02-01T14:00:00+02:00": noon, "1517486400000": noon, "2018-02-01 12:00": noon,
		"2018-02-01": noon.Add(-12 * time.Hour), "2018-02-01T12:00:00.5Z": noon.Add(500 * time.Millisecond),
	} {
		if got, err := parseTime(text); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]rheo.Start{
		"start": rheo.StartBeginning(), "end": rheo.StartEnd(), "1": rheo.StartAfter(0), "150": rheo.StartAfter(149),
		"2018-02-01T12:00:00Z": rheo.StartTime(noon),
	} {
		var got rheo.Start
		if err := (startFlag{&got}).Set(text); err != nil || got.Kind != want.Kind || got.After != want.After || !got.Time.Equal(want.Time) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "-1", "middle", ""} {
		var got rheo.Start
		if err := (startFlag{&got}).Set(text); err == nil {
			t.Errorf("%q is a start: %+v", text, got)
		}
	}
}

func TestProgressText(t *testing.T) {
	t.Parallel()
	p := &progress{label: "appending x", total: 200, done: func() int64 { return 100 }, began: time.Now()}
	if got, want := p.text(), "appending x  [###############...............] 50%  0s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.total = 0
	if got, want := p.text(), "appending x  0s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var nothing *progress
	nothing.stop()
}
