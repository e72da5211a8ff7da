// Command rheo keeps event streams in a store and hands them to consumer groups,
// from a shell: to try the library, to operate what is built on it, and to use it
// as it is. `rheo demo` is the tour, `rheo help` the list of commands.
package main

import (
	"context"
	"os"

	"github.com/rheo-go/rheo/cmd/rheo/internal/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
