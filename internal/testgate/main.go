// Command testgate reads what `go test -json` prints, shows it as `go test` would, and fails where `go test` does not:
// on a skipped test that the list of allowed skips does not name.
//
//	go test -json ./... | testgate -skips .ci/allowed-skips
//
// It ends with one line that counts tests and subtests: "N passed, N failed, N skipped".
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("testgate", flag.ContinueOnError)
	flags.SetOutput(stderr)
	skips := flags.String("skips", "", "the `file` of allowed skips")
	verbose := flags.Bool("v", false, "show the output of tests that pass, too")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	var allowed []allowedSkip
	if *skips != "" {
		text, err := os.ReadFile(*skips)
		if err != nil {
			fmt.Fprintf(stderr, "testgate: %v\n", err)
			return 2
		}
		if allowed, err = parseAllowedSkips(string(text)); err != nil {
			fmt.Fprintf(stderr, "testgate: %s: %v\n", *skips, err)
			return 2
		}
	}
	g := newGate(stdout, allowed, *verbose)
	if err := g.read(stdin); err != nil {
		fmt.Fprintf(stderr, "testgate: %v\n", err)
		return 2
	}
	if !g.finish() {
		return 1
	}
	return 0
}
