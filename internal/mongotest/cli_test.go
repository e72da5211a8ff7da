package mongotest_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// buildCLI builds the command once.
var buildCLI = sync.OnceValues(func() (string, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return "", err
	}
	return build(filepath.Join(root, "go.work"), root, "./cmd/rheo")
})

// shell runs the command on one store.
type shell struct {
	*testing.T
	program, store string
}

func (s *shell) run(input string, args ...string) (out string, err error) {
	s.Helper()
	command := exec.CommandContext(s.Context(), s.program, append([]string{"--store", s.store}, args...)...)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("rheo %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// says checks that a command succeeds and that its output holds each of the texts.
func (s *shell) says(input string, args []string, texts ...string) {
	s.Helper()
	out, err := s.run(input, args...)
	if err != nil {
		s.Fatal(err)
	}
	for _, text := range texts {
		if !strings.Contains(out, text) {
			s.Errorf("rheo %s does not say %q, but\n%s", strings.Join(args, " "), text, out)
		}
	}
}

// TestCLI: what people do from a shell works on a database of MongoDB's.
func TestCLI(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	database := connect(t, p, nil).Database(databaseName())
	prefix := freshPrefix()
	dropAfter(t, database, prefix)
	program, err := buildCLI()
	if err != nil {
		t.Fatal(err)
	}
	s := &shell{T: t, program: program, store: fmt.Sprintf("mongodb://%s/%s?directConnection=true&rheo_prefix=%s", p.host(), databaseName(), prefix)}
	words := strings.Fields
	if _, err := s.run("", "stream", "list"); err == nil || !strings.Contains(err.Error(), "rheo migrate") {
		t.Errorf("without a schema: %v", err)
	}
	s.says("", words("migrate --index payload"), "ready")
	s.says("", words("stream create orders --partitions 2"))
	s.says("", words("group create orders billing --max-attempts 2"))
	s.says(`{"no":"a","total":1}`+"\n"+`{"no":"b","total":9223372036854775807}`+"\n"+`{"no":"c","$x.y":0.10}`+"\n", words("append orders --id no"))
	s.says("", words("lag orders billing --json"), `"lag":3`)
	s.says("", append(words("query orders --json --where"), "total = 9223372036854775807"), `"id":"b"`)
	s.says("", words("consume orders billing --count 2"), `"payload"`)
	s.says("", words("consume orders billing --until-empty --json"))
	s.says("", words("lag orders billing --json"), `"lag":0`)
	s.says("", words("replay orders billing --ids c"), "1")
	s.says("", append(words("consume orders billing --count 1 --exec"), "exit 65"))
	s.says("", words("dead-letters list orders billing --json"), `"event_id":"c"`, `"$x.y":0.10`)
	s.says("", words("dead-letters redrive orders billing"))
	s.says("", words("group info orders billing --json"), `"dead_letters":0`, `"lag":1`)
	s.says("", words("reset orders billing --confirm"))
	s.says("", words("lag orders billing --json"), `"lag":3`)
}
