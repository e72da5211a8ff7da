// Command ferretdb is the server of the tests: FerretDB on SQLite files in a
// directory, on a Unix socket in it. It ends when its standard input does, and so
// with the test process, however that ends. It is a program of its own, not a part
// of the tests, so that the race detector watches what is tested, and does not slow
// down the server.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: ferretdb DIRECTORY")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(directory string) error {
	debug.SetGCPercent(400) // it takes documents apart by the million
	data := filepath.Join(directory, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	f, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{Unix: filepath.Join(directory, "ferretdb.sock")},
		Handler:   "sqlite",
		SQLiteURL: "file:" + data + "/",
		Logger:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the tests end
		cancel()
	}()
	return f.Run(ctx)
}
