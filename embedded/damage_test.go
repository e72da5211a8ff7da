package embedded_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/embedded"
	"go.etcd.io/bbolt"
)

func createBolt(t *testing.T, path string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedDatabase damages a database in many ways and reads all of it, in
// processes of their own: each time there is an error that names the file, or
// everything is there as it was.
func TestDamagedDatabase(t *testing.T) {
	t.Parallel()
	const processes = 4
	each := 50
	if testing.Short() {
		each = 15
	}
	s := newStore(t, 512, rheo.GroupConfig{Partitions: []int{0, 1}}) // so many that IDs enter the index early
	s.populate()
	s.must(s.in.Close())
	cutToSize(t, s.store.Dir())
	want, err := digest(t.Context(), s.store.Dir())
	s.must(err)
	seed := time.Now().UnixNano()
	for p := range processes {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			t.Parallel()
			lines := runChild(t, "damage", "BASE="+s.store.Dir(), "SCRATCH="+t.TempDir(), "COUNT="+fmt.Sprint(each),
				"SEED="+fmt.Sprint(seed+int64(p)), "WANT="+want)
			same := 0
			for _, line := range lines {
				switch {
				case strings.HasSuffix(line, ": same"):
					same++
				case !strings.Contains(line, "rheo.db"):
					t.Errorf("seed %d: %s", seed+int64(p), line)
				}
			}
			if len(lines) != each {
				t.Errorf("seed %d: %d of %d were tried", seed+int64(p), len(lines), each)
			}
			t.Logf("%d of %d made no difference", same, each)
		})
	}
}

// runChild runs a child to its end and returns the lines it printed.
func runChild(t *testing.T, name string, variables ...string) []string {
	t.Helper()
	const limit = 2 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+name)
	for _, v := range variables {
		cmd.Env = append(cmd.Env, "RHEO_EMBEDDED_"+v)
	}
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		text := complaints.String()
		t.Errorf("%v: %s\nafter\n%s", err, text[:min(len(text), 4000)], out.String())
	}
	var lines []string
	for scanner := bufio.NewScanner(&out); scanner.Scan(); {
		lines = append(lines, scanner.Text())
	}
	return lines
}

func childSetting(name string) string { return os.Getenv("RHEO_EMBEDDED_" + name) }

func childNumber(name string) int64 {
	n, err := strconv.ParseInt(childSetting(name), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func init() { children["cut"] = cutWhileOpen }

// cutWhileOpen cuts a database under the hands of a store, and says what that
// answers then.
func cutWhileOpen() error {
	ctx := context.Background()
	b, err := embedded.Open(childSetting("DIR"), nil)
	if err != nil {
		return err
	}
	in, err := rheo.New(b, nil)
	if err != nil {
		return err
	}
	if err := os.Truncate(filepath.Join(childSetting("DIR"), "rheo.db"), 2*4096); err != nil {
		return err
	}
	_, err = in.Read(ctx, "s", 0, 0, 1000)
	fmt.Println(errors.Is(err, rheo.ErrFailed), err)
	_, err = in.Append(ctx, "s", rheo.Event{})
	fmt.Println(errors.Is(err, rheo.ErrFailed), err)
	_, err = in.Fetch(ctx, "s", "g", rheo.FetchOptions{})
	fmt.Println(errors.Is(err, rheo.ErrFailed), err)
	return in.Close()
}

func TestDatabaseCutWhileOpen(t *testing.T) {
	t.Parallel()
	s := newStore(t, 2, rheo.GroupConfig{})
	s.populate()
	s.must(s.in.Close())
	lines := runChild(t, "cut", "DIR="+s.store.Dir())
	if len(lines) != 3 {
		t.Fatalf("it said %q", lines)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "true ") || !strings.Contains(line, "rheo.db") {
			t.Errorf("it said %q", line)
		}
	}
	refused(t, s.store.Dir(), rheo.ErrFailed, "rheo.db was cut")
}

// populate fills the store with something of everything.
func (s *testStore) populate() {
	s.Helper()
	for i := range 30 {
		events := make([]rheo.Event, 100)
		for j := range events {
			n := i*100 + j
			events[j] = rheo.Event{
				ID: fmt.Sprintf("%x", sha256.Sum256([]byte{byte(n), byte(n >> 8)})), Partition: n % 2, Pinned: true, Key: "k",
				Type: "t", Metadata: map[string]string{"n": fmt.Sprint(n)}, Payload: fmt.Appendf(nil, `{"n":%d}`, n),
			}
		}
		_, err := s.in.Append(s.Context(), "s", events...)
		s.must(err)
	}
	for g := range 20 {
		s.must(s.in.CreateGroup(s.Context(), "s", fmt.Sprintf("g%d", g), rheo.GroupConfig{Partitions: []int{0, 1}}))
	}
	for range 20 {
		l := s.fetch(40)
		s.must(s.in.Reject(s.Context(), strings.Repeat("no ", 20), l[:10]...))
		s.must(s.in.Ack(s.Context(), l[15:]...))
	}
}

// cutToSize takes what bbolt has reserved off the end of the database.
func cutToSize(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "rheo.db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	_ = db.View(func(tx *bbolt.Tx) error {
		size = tx.Size()
		return nil
	})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func init() { children["damage"] = damage }

// damage tries damages to copies of a database.
func damage() error {
	whole, err := os.ReadFile(filepath.Join(childSetting("BASE"), "rheo.db"))
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(uint64(childNumber("SEED")), 0))
	for i := range childNumber("COUNT") {
		dir := filepath.Join(childSetting("SCRATCH"), fmt.Sprint(i))
		if err := os.CopyFS(dir, os.DirFS(childSetting("BASE"))); err != nil {
			return err
		}
		what, spoiled := spoil(random, bytes.Clone(whole))
		if err := os.WriteFile(filepath.Join(dir, "rheo.db"), spoiled, 0o600); err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", what, outcome(dir))
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

func outcome(dir string) string {
	got, err := digest(context.Background(), dir)
	switch {
	case err != nil:
		return err.Error()
	case got != childSetting("WANT"):
		return "SILENTLY DIFFERENT"
	default:
		return "same"
	}
}

// spoil damages a page, mostly near its beginning, where what the database hangs
// on is; or cuts the file.
func spoil(random *rand.Rand, b []byte) (what string, spoiled []byte) {
	const page = 4096
	at := random.IntN(len(b)/page) * page
	offset := at + random.IntN(page)
	if random.IntN(2) == 0 {
		offset = at + random.IntN(128)
	}
	n := min(len(b)-offset, 1+random.IntN(8))
	fill := func(at, n int) {
		for i := range b[at : at+n] {
			b[at+i] = byte(random.Uint32())
		}
	}
	switch random.IntN(8) {
	case 0:
		return fmt.Sprintf("cut at %d", offset), b[:offset]
	case 1:
		clear(b[at : at+page])
		return fmt.Sprintf("page at %d cleared", at), b
	case 2:
		fill(at, page)
		return fmt.Sprintf("page at %d overwritten", at), b
	case 3:
		from := random.IntN(len(b)/page) * page
		copy(b[at:at+page], b[from:from+page])
		return fmt.Sprintf("page at %d overwritten by that at %d", at, from), b
	case 4:
		b[offset] ^= 1 << random.IntN(8)
		return fmt.Sprintf("bit at %d flipped", offset), b
	default:
		fill(offset, n)
		return fmt.Sprintf("%d bytes at %d overwritten", n, offset), b
	}
}

// digest reads all that is in a store.
func digest(ctx context.Context, dir string) (string, error) {
	b, err := embedded.Open(dir, nil)
	if err != nil {
		return "", err
	}
	defer b.Close()
	in, err := rheo.New(b, nil)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	if err := digestEvents(ctx, in, h); err != nil {
		return "", err
	}
	groups, err := in.Groups(ctx, "s")
	if err != nil {
		return "", err
	}
	for _, g := range groups {
		info, err := in.GroupInfo(ctx, "s", g)
		if err != nil {
			return "", err
		}
		for i := range info.Partitions {
			info.Partitions[i].OldestUnacked = 0
		}
		fmt.Fprintf(h, "%+v\n", info)
		for d, err := range in.DeadLetters(ctx, "s", g) {
			if err != nil {
				return "", err
			}
			fmt.Fprintf(h, "%+v\n", d)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// digestEvents reads every event, and looks for every third by ID.
func digestEvents(ctx context.Context, in *rheo.Instance, h hash.Hash) error {
	streams, err := in.Streams(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(h, "%+v\n", streams)
	n := 0
	for e, err := range in.QueryAll(ctx, "s", rheo.Query{}) {
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%+v\n", e)
		n++
		if n%3 != 0 {
			continue
		}
		found, err := in.Query(ctx, "s", rheo.Query{Where: []rheo.Condition{rheo.Where("id", rheo.OpEq, e.ID)}, Partitions: []int{e.Partition}})
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%d\n", len(found))
	}
	return nil
}
