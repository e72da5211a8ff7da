package rheo_test

import (
	"bufio"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rheo-go/rheo"
)

// The vectors come from a real Erlang/OTP; see the file's first line.
func TestPHash2MatchesErlang(t *testing.T) {
	t.Parallel()
	f, err := os.Open("backendtest/testdata/phash2.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	checked := 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		fields := strings.Split(lines.Text(), "\t")
		key, err := hex.DecodeString(fields[0])
		if err != nil {
			t.Fatal(err)
		}
		n, _ := strconv.Atoi(fields[1])
		want, _ := strconv.Atoi(fields[2])
		if got := rheo.PHash2(string(key), n); got != want {
			t.Fatalf("PHash2(%x, %d) = %d, Erlang says %d", key, n, got, want)
		}
		checked++
	}
	if checked != 948 {
		t.Fatalf("%d vectors checked, the file has 948", checked)
	}
}
