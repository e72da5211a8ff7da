// Package cli is the rheo command: [Run] is all of it but the process around it,
// so that tests call it as a shell would.
package cli

import (
	"context"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // the command line itself is wrong; nothing was tried
)

// app is one run of the command.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	openers  map[string]opener
	children children  // the commands of consume --exec that run now
	quit     func(int) // ends the process at once

	storeFlag string // --store
	json      bool   // --json
	began     bool   // the command line was understood and the command began
	args      []string
	words     []string // the whole command line
}

// Run runs the command with the given arguments, without the program's name, and
// returns its exit code: 0 done, 1 failed, 2 the command line is wrong. The end
// of ctx is like a first Ctrl-C: what runs finishes cleanly.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{
		stdin: stdin, stdout: &stream{w: stdout}, stderr: &stream{w: stderr},
		openers: maps.Clone(openers), quit: os.Exit,
	}
	return a.run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	ctx, stop := a.untilSignal(ctx)
	defer stop()
	a.words = args
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	command, err := root.ExecuteContextC(ctx)
	return a.report(ctx, command, err)
}

const rootHelp = `Rheo keeps immutable event streams in a store, and hands them to any number of
consumer groups: durable, independent readers that know what they have done.

The store is --store, else $RHEO_STORE, else embedded:./rheo-data:
  embedded:DIR     a directory of this machine, for one process at a time
  sqlite:FILE      a SQLite database, for the processes of this machine
  postgres://...   a PostgreSQL database; rheo migrate prepares it
  mongodb://...    a MongoDB database; rheo migrate prepares it
  redis://...      a Redis server, or redis+cluster://HOST,... a cluster; rheo migrate
                   says whether its settings keep what it is given
  memory:          this process' memory; gone when the command ends
?rheo_prefix=NAME_ behind a SQLite file or in a URL says what the names of its tables,
collections or keys begin with (default rheo_; in Redis rheo).

Data goes to stdout, everything else to stderr; --json makes data JSON, with
lists of events one a line (NDJSON).
Exit code: 0 done, 1 failed, 2 the command line is wrong (nothing was tried).`

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "rheo",
		Short:         "Event streams and durable consumer groups on a store you run",
		Long:          rootHelp,
		Example:       "  rheo demo",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	root.PersistentFlags().StringVar(&a.storeFlag, "store", "", "the store (default $RHEO_STORE, else "+defaultStore+")")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print data as JSON")
	root.AddCommand(
		a.demoCommand(), a.streamCommand(), a.groupCommand(), a.appendCommand(), a.readCommand(), a.queryCommand(),
		a.consumeCommand(), a.lagCommand(), a.deadLettersCommand(), a.replayCommand(), a.resetCommand(),
		a.migrateCommand(), a.benchCommand(),
	)
	return root
}

// command makes a command of its use line, as in "info STREAM GROUP", which must
// name the arguments; args checks them.
func (a *app) command(use, short string, args cobra.PositionalArgs, run func(ctx context.Context, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use:                   use,
		Short:                 short,
		Args:                  args,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			a.began, a.args = true, args
			return run(cmd.Context(), args)
		},
	}
}

// parent makes a command that only has others below it.
func (a *app) parent(use, short string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return usagef("%s needs a command: %s", cmd.CommandPath(), strings.Join(names(cmd), ", "))
		},
	}
	cmd.AddCommand(below...)
	return cmd
}

func unknownCommand(cmd *cobra.Command, name string) error {
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return usagef("%s has no command %q; did you mean %s?", cmd.CommandPath(), name, strings.Join(near, " or "))
	}
	return usagef("%s has no command %q, only %s", cmd.CommandPath(), name, strings.Join(names(cmd), ", "))
}

func names(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
