package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/rheo-go/rheo/bench"
	"github.com/rheo-go/rheo/internal/testservers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testservers.Main(m)) }

func TestCompare(t *testing.T) {
	var out bytes.Buffer
	args := strings.Fields("--events 300 --batch 100 --callers 1,2 --rounds 2 --only bbolt,gochannel")
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"callers: 1", "callers: 2", "bbolt", "gochannel", "1.00 / 1.00"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables lack %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "jetstream") {
		t.Error("--only did not leave out jetstream")
	}
}

func TestLatency(t *testing.T) {
	var out bytes.Buffer
	args := strings.Fields("--latency 100 --events 10 --rounds 1 --only rheo/memory,sqlite-log-mattn")
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"10 single events at 100 a second", "rheo/memory", "sqlite-log-mattn"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

func TestSets(t *testing.T) {
	o, err := parse(strings.Fields("--only bbolt,postgres"), io.Discard, nil, nil)
	if err != nil || o.subjects[0].Name() != "bbolt" || len(o.subjects) != 1+len(bench.PostgresSubjects(nil)) {
		t.Errorf("got %s, %v", names(o.subjects), err)
	}
	if o, err = parse(nil, io.Discard, nil, nil); err != nil || len(o.subjects) != len(bench.Subjects()) {
		t.Errorf("by default: got %s, %v; want no server to be needed", names(o.subjects), err)
	}
}

func TestServerOfTests(t *testing.T) {
	if testing.Short() {
		return // it starts one
	}
	var out bytes.Buffer
	args := strings.Fields("--events 200 --callers 2 --rounds 1 --only rheo/postgres-1,pgx-log-1")
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "WAL B/event") {
		t.Errorf("the table lacks the WAL:\n%s", out.String())
	}
}

func TestServerThatFails(t *testing.T) {
	t.Setenv("RHEO_TEST_POSTGRES_URL", "postgres://%zz")
	if testing.Short() { // else the process has its server already
		if _, err := postgres()(t.Context()); err == nil || !strings.Contains(err.Error(), "no PostgreSQL") {
			t.Errorf("got %v", err)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range []string{
		"--only nothing", "--callers 0", "--callers 1,x", "--rounds 0", "--events x", "stray", "--only bbolt,", "--latency x",
	} {
		if err := run(t.Context(), strings.Fields(args), io.Discard, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%s: got %v, want a usage error", args, err)
		}
	}
}

func TestRate(t *testing.T) {
	for perSecond, want := range map[float64]string{950: "950", 5012: "5.0 k", 162_300: "162 k", 1_234_000: "1.23 M"} {
		if got := rate(perSecond); got != want {
			t.Errorf("rate(%v) = %q, want %q", perSecond, got, want)
		}
	}
}
