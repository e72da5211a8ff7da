package cli

import (
	"context"
	"errors"

	"github.com/rheo-go/rheo"
	"github.com/spf13/cobra"
)

const replayHelp = `Hands events out to the group again, from attempt 1, whether they were acked,
rejected or in flight: all from a sequence on (in each partition) or from a time
on, or those that meet conditions (as rheo query has them), or those named. The
log does not change, and no other group notices.`

func (a *app) replayCommand() *cobra.Command {
	var s rheo.ReplaySelection
	var where []rheo.Condition
	cmd := a.command("replay STREAM GROUP {--from-sequence N | --from-time T | --where … | --ids …} [--partitions …]",
		"Hand events out to a group again", cobra.ExactArgs(2),
		func(ctx context.Context, args []string) error {
			if where != nil {
				s.Query = &rheo.Query{Where: where, Partitions: s.Partitions}
			}
			return a.withStore(ctx, func(inst *rheo.Instance) error {
				bar := a.progress("replaying", 0, nil)
				n, err := inst.Replay(ctx, args[0], args[1], s)
				bar.stop()
				if err != nil {
					return err
				}
				return a.say(map[string]any{"stream": args[0], "group": args[1], "replayed": n},
					"%s of stream %s will be handed to group %s again", plural(n, "event"), args[0], args[1])
			})
		})
	cmd.Long = replayHelp
	cmd.Example = `  rheo replay quakes alarms --from-time 2018-02-01
  rheo replay quakes alarms --where 'properties.mag >= 6'`
	addInt64(cmd, &s.FromSequence, "from-sequence", "all from this sequence on, in each partition")
	cmd.Flags().Var(timeFlag{&s.FromTime}, "from-time", "all from the first event of this time on")
	addWhere(cmd, &where)
	cmd.Flags().StringSliceVar(&s.IDs, "ids", nil, "the events of these IDs")
	addPartitions(cmd, &s.Partitions, "these partitions only (default all)")
	cmd.MarkFlagsOneRequired("from-sequence", "from-time", "where", "ids")
	cmd.MarkFlagsMutuallyExclusive("from-sequence", "from-time", "where", "ids")
	return cmd
}

// firstSequenceFlag is a sequence from 1.
type firstSequenceFlag struct{ sequenceFlag }

// Set implements pflag.Value.
func (f firstSequenceFlag) Set(s string) error {
	if err := f.sequenceFlag.Set(s); err != nil || *f.to == 0 {
		return errors.New("must be a sequence: a whole number, 1 or more")
	}
	return nil
}

func addInt64(cmd *cobra.Command, to *int64, name, usage string) {
	cmd.Flags().Var(firstSequenceFlag{sequenceFlag{to}}, name, usage)
}

func (a *app) resetCommand() *cobra.Command {
	var opts rheo.ResetOptions
	var start rheo.Start
	cmd := a.command("reset STREAM GROUP --confirm [flags]", "Start a group over", cobra.ExactArgs(2), nil)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !opts.Confirm {
			return usagef("reset forgets what group %s has acked, its attempts and its dead letters; add --confirm to do that", args[1])
		}
		if cmd.Flags().Changed("from") {
			opts.Start = &start
		}
		a.began, a.args = true, args
		ctx := cmd.Context()
		return a.withStore(ctx, func(inst *rheo.Instance) error {
			if err := inst.ResetGroup(ctx, args[0], args[1], opts); err != nil {
				return err
			}
			lag, err := inst.Lag(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			return a.say(lag, "group %s of stream %s starts over, %s behind", args[1], args[0], plural(lag.Lag, "event"))
		})
	}
	cmd.Long = `Forgets what the group has acked, its attempts and its dead letters, and takes
every lease from its holder. The group begins where it was created to, or --from.`
	cmd.Flags().BoolVar(&opts.Confirm, "confirm", false, "do it")
	cmd.Flags().Var(startFlag{&start}, "from", "where it begins anew (default where it was created to)")
	addPartitions(cmd, &opts.Partitions, "these partitions only (default all)")
	return cmd
}
