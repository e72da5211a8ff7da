package sqlitetest_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/sqlite"
)

// The other process of a test is this test's binary, told by these variables what
// to be.
const (
	roleVariable    = "RHEO_SQLITETEST_ROLE"
	fileVariable    = "RHEO_SQLITETEST_FILE"
	settingVariable = "RHEO_SQLITETEST_SETTING"
	nameVariable    = "RHEO_SQLITETEST_NAME"
)

const (
	sharedStream = "shared"
	sharedGroup  = "workers"
)

// player is a process that plays a role.
type player struct {
	*rheo.Instance
	name string
	mu   sync.Mutex
	out  *bufio.Writer
}

var roles = map[string]func(context.Context, *player) error{
	"victim":    victim,
	"contender": contender,
}

// play returns the exit code.
func play(role string) int {
	if err := perform(context.Background(), role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func perform(ctx context.Context, role string) error {
	s, _ := settingNamed(os.Getenv(settingVariable))
	db, err := sql.Open(s.driver, s.dsn(os.Getenv(fileVariable)))
	if err != nil {
		return err
	}
	defer db.Close()
	b, err := sqlite.New(db, nil)
	if err != nil {
		return err
	}
	in, err := rheo.New(b, nil)
	if err != nil {
		return err
	}
	defer in.Close()
	const most = 2 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return roles[role](ctx, &player{Instance: in, name: os.Getenv(nameVariable), out: bufio.NewWriter(os.Stdout)})
}

// say prints lines, all of which the parent gets even if this process is killed
// right after.
func (p *player) say(lines ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range lines {
		fmt.Fprintln(p.out, line)
	}
	return p.out.Flush()
}

// spawn prepares another process.
func spawn(t *testing.T, s setting, role, file, name string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(),
		roleVariable+"="+role, fileVariable+"="+file, settingVariable+"="+s.name, nameVariable+"="+name)
	cmd.Stderr = os.Stderr
	return cmd
}

// shared makes the stream and group that the processes work on.
func shared(t *testing.T, s setting, partitions int) (in *rheo.Instance, path string) {
	t.Helper()
	path = file(t)
	in = instance(t, s.open(t, path))
	if err := in.CreateStream(t.Context(), sharedStream, rheo.StreamConfig{Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	if err := in.CreateGroup(t.Context(), sharedStream, sharedGroup, rheo.GroupConfig{MaxAttempts: 1000}); err != nil {
		t.Fatal(err)
	}
	return in, path
}
