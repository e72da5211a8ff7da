package cli

import (
	"bufio"
	"context"
	"errors"
	"math"

	"github.com/rheo-go/rheo"
	"github.com/spf13/cobra"
)

func (a *app) readCommand() *cobra.Command {
	var q rheo.Query
	cmd := a.command("read STREAM [flags]", "Print events in the order of the log", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return a.printEvents(ctx, args[0], q) })
	cmd.Long = `Prints events by partition, then sequence. Reading consumes nothing.`
	addInts(cmd, &q.Partitions, "partition", nil, 0, rheo.MaxPartitions-1, "read this partition only (default all)")
	cmd.Flags().Var(sequenceFlag{&q.After}, "after", "begin behind this sequence, in each partition")
	addInt(cmd, &q.Limit, "limit", 0, 0, math.MaxInt, "print at most so many (default all)")
	return cmd
}

const queryHelp = `Prints the events that meet every condition given. A --where is 'PATH OP VALUE':

  PATH   id, type, key, partition, sequence and timestamp are the event's own;
         metadata.… and payload.… say so; any other path is the payload's.
         It is dotted; a backslash makes a dot, a space or = ! < > part of a name.
  OP     = != > >= < <=, in (VALUE is a JSON list), exists (no VALUE)
  VALUE  JSON, or else a string as it stands. Equality is typed: "1" is not 1.`

func (a *app) queryCommand() *cobra.Command {
	var q rheo.Query
	order, orderBy := "asc", "sequence"
	cmd := a.command("query STREAM [flags]", "Search a stream", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error {
			q.Descending = order == "desc"
			if orderBy == "timestamp" {
				q.OrderBy = rheo.ByTimestamp
			}
			return a.printEvents(ctx, args[0], q)
		})
	cmd.Long = queryHelp
	cmd.Example = `  rheo query quakes --where 'properties.mag >= 5' --where 'type = earthquake'
  rheo query quakes --where 'properties.net in ["us", "ak"]' --from 2018-02-01 --order-by timestamp --order desc --limit 10`
	addWhere(cmd, &q.Where)
	cmd.Flags().Var(timeFlag{&q.From}, "from", "timestamp from this on: RFC 3339, a date, or milliseconds since 1970")
	cmd.Flags().Var(timeFlag{&q.To}, "to", "timestamp before this")
	cmd.Flags().Var(sequenceFlag{&q.After}, "after", "sequence above this")
	cmd.Flags().Var(sequenceFlag{&q.Until}, "until", "sequence up to this")
	addPartitions(cmd, &q.Partitions, "search these partitions only (default all)")
	cmd.Flags().Var(choiceFlag{&order, []string{"asc", "desc"}}, "order", "which way to sort")
	cmd.Flags().Var(choiceFlag{&orderBy, []string{"sequence", "timestamp"}}, "order-by", "what to sort by; sequence is by partition first")
	addInt(cmd, &q.Limit, "limit", 0, 0, math.MaxInt, "print at most so many (default all)")
	return cmd
}

func addWhere(cmd *cobra.Command, to *[]rheo.Condition) {
	cmd.Flags().Var(whereFlag{to}, "where", "a condition; repeat it for more, all of which must hold")
}

// printEvents prints what the query finds, as it is found.
func (a *app) printEvents(ctx context.Context, stream string, q rheo.Query) error {
	return a.withStore(ctx, func(inst *rheo.Instance) error {
		out := bufio.NewWriterSize(a.stdout, 64<<10)
		printer := a.eventPrinter(out)
		for e, err := range inst.QueryAll(ctx, stream, q) {
			if err != nil {
				return errors.Join(err, printer.flushRows(), outputError(out.Flush()))
			}
			if err := printer.print(e); err != nil {
				return err
			}
		}
		return errors.Join(printer.flush(), outputError(out.Flush()))
	})
}
