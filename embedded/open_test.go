package embedded_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/backendtest"
	"github.com/rheo-go/rheo/embedded"
)

// refused checks that the directory cannot be opened, for a reason that names all
// of the parts.
func refused(t *testing.T, dir string, kind error, parts ...string) {
	t.Helper()
	b, err := embedded.Open(dir, nil)
	if err == nil {
		b.Close()
		t.Fatal("it was opened")
	}
	if !errors.Is(err, kind) {
		t.Fatalf("the error is %v, want %q", err, kind)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Fatalf("the error %q does not name %q", err, part)
		}
	}
}

func TestSecondOpenerInTheSameProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, err := embedded.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	refused(t, dir, rheo.ErrUnavailable, dir, "this process", fmt.Sprint(os.Getpid()))
	waited := make(chan error, 1)
	go func() {
		second, err := embedded.Open(dir, &embedded.Options{OpenTimeout: time.Minute})
		if err == nil {
			err = second.Close()
		}
		waited <- err
	}()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
}

func init() { children["hold"] = hold }

// hold keeps the store open until its input ends.
func hold() error {
	b, err := embedded.Open(os.Getenv("RHEO_EMBEDDED_DIR"), nil)
	if err != nil {
		return err
	}
	fmt.Println("open")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return b.Close()
}

func TestSecondOpenerInAnotherProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=hold", "RHEO_EMBEDDED_DIR="+dir)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "open\n" {
		t.Fatalf("the other process says %q: %v", line, err)
	}
	host, _ := os.Hostname()
	refused(t, dir, rheo.ErrUnavailable, dir, fmt.Sprintf("process %d on %s", cmd.Process.Pid, host))
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	openStore(t, dir, backendtest.NewClock())
}

// closedStore returns the directory of a store with something in it.
func closedStore(t *testing.T) string {
	t.Helper()
	s := newStore(t, 2, rheo.GroupConfig{})
	s.fill(0, 10)
	s.takes(2, "1/1", "2/1")
	s.must(s.in.Close())
	return s.store.Dir()
}

func TestFilesThatAreMissing(t *testing.T) {
	t.Parallel()
	db := func(dir string) string { return filepath.Join(dir, "rheo.db") }
	marker := func(dir string) string { return filepath.Join(dir, "FORMAT") }
	tests := map[string]struct {
		spoil func(dir string) error
		parts []string
	}{
		"database":            {func(dir string) error { return os.Remove(db(dir)) }, []string{"rheo.db is missing"}},
		"database and marker": {func(dir string) error { return errors.Join(os.Remove(db(dir)), os.Remove(marker(dir))) }, []string{"rheo.db is missing", "claims-0.log"}},
		"empty database":      {func(dir string) error { return os.Truncate(db(dir), 0) }, []string{"rheo.db is empty"}},
		"short database":      {func(dir string) error { return os.Truncate(db(dir), 4096) }, []string{"rheo.db is damaged"}},
		"cut database":        {func(dir string) error { return os.Truncate(db(dir), 4*4096) }, []string{"rheo.db was cut", "16384 bytes"}},
		"no database":         {func(dir string) error { return os.WriteFile(db(dir), make([]byte, 1<<16), 0o600) }, []string{"rheo.db is damaged"}},
		"garbled marker":      {func(dir string) error { return os.WriteFile(marker(dir), []byte("hello"), 0o600) }, []string{"FORMAT is damaged"}},
		"newer format": {func(dir string) error {
			return os.WriteFile(marker(dir), []byte("rheo embedded store, format 2\n"), 0o600)
		}, []string{"FORMAT has format 2", "newer release"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := closedStore(t)
			if err := tt.spoil(dir); err != nil {
				t.Fatal(err)
			}
			refused(t, dir, rheo.ErrFailed, append(tt.parts, dir)...)
			refused(t, dir, rheo.ErrFailed, tt.parts...) // the first refusal has let go of everything
		})
	}
}

func TestMarkerThatIsMissing(t *testing.T) {
	t.Parallel()
	dir := closedStore(t)
	if err := os.Remove(filepath.Join(dir, "FORMAT")); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir, backendtest.NewClock())
	s.high(0, 10)
	if _, err := os.Stat(filepath.Join(dir, "FORMAT")); err != nil {
		t.Fatal(err)
	}
}

func TestDatabaseOfAnotherKind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := filepath.Join(dir, "rheo.db")
	createBolt(t, other)
	refused(t, dir, rheo.ErrFailed, other, "format")
	if _, err := os.Stat(filepath.Join(dir, "FORMAT")); err == nil {
		t.Fatal("it was marked as a store")
	}
}

// A store that was begun and never finished is begun again.
func TestUnfinishedCreation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rheo.db.tmp"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir, backendtest.NewClock())
	s.must(s.in.CreateStream(t.Context(), "s", rheo.StreamConfig{}))
}

func TestDirectoryThatCannotBe(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, filepath.Join(file, "store"), rheo.ErrUnavailable, file)
	refused(t, "", rheo.ErrInvalid)
}

// A database from a backup does not go with claims that were made later.
func TestDatabaseOlderThanClaims(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1, rheo.GroupConfig{})
	path := filepath.Join(s.store.Dir(), "rheo.db")
	s.must(s.store.Close())
	backup, err := os.ReadFile(path)
	s.must(err)
	s = openStore(t, s.store.Dir(), s.clock)
	s.fill(0, 2)
	s.takes(1, "1/1")
	s.store.Abandon()
	s.must(os.WriteFile(path, backup, 0o600))
	refused(t, s.store.Dir(), rheo.ErrFailed, "claims-0.log does not belong to", "rheo.db", "backup")
}
