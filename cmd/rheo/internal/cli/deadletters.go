package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/rheo-go/rheo"
	"github.com/spf13/cobra"
)

func (a *app) deadLettersCommand() *cobra.Command {
	return a.parent("dead-letters", "List what a group has given up on, or try it again", a.deadLettersList(), a.deadLettersRedrive())
}

func (a *app) deadLettersList() *cobra.Command {
	var limit int
	cmd := a.command("list STREAM GROUP [--limit N]", "List a group's dead letters", cobra.ExactArgs(2),
		func(ctx context.Context, args []string) error {
			return a.withStore(ctx, func(inst *rheo.Instance) error {
				out := bufio.NewWriterSize(a.stdout, 64<<10)
				list := a.listDeadTable
				if a.json {
					list = listDeadJSON
				}
				err := list(out, func(yield func(rheo.DeadLetter, error) bool) {
					n := 0
					for d, err := range inst.DeadLetters(ctx, args[0], args[1]) {
						if limit > 0 && n == limit || !yield(d, err) {
							return
						}
						n++
					}
				})
				return errors.Join(err, outputError(out.Flush()))
			})
		})
	cmd.Long = `Lists the events that the group has rejected, or has tried as often as it may,
with the reason of the last attempt. The events themselves stay in the stream.`
	addInt(cmd, &limit, "limit", 0, 0, math.MaxInt, "list at most so many (default all)")
	return cmd
}

type deadLetters = func(yield func(rheo.DeadLetter, error) bool)

// listDeadJSON writes one list, however long, as its elements come.
func listDeadJSON(w io.Writer, letters deadLetters) error {
	separator := "["
	for d, err := range letters {
		if err != nil {
			return err
		}
		d.Event = withMetadata(d.Event)
		if _, err := io.WriteString(w, separator); err != nil {
			return outputError(err)
		}
		if err := writeJSON(w, d); err != nil {
			return outputError(err)
		}
		separator = ","
	}
	end := "]\n"
	if separator == "[" {
		end = "[]\n"
	}
	_, err := io.WriteString(w, end)
	return outputError(err)
}

func (a *app) listDeadTable(w io.Writer, letters deadLetters) error {
	t := newTable(w, ">PARTITION", ">SEQUENCE", "ID", ">ATTEMPTS", "SINCE", "REASON")
	for d, err := range letters {
		if err != nil {
			return err
		}
		if err := t.add(strconv.Itoa(d.Partition), strconv.FormatInt(d.Sequence, 10), d.EventID, strconv.Itoa(d.Attempts),
			clock(d.DeadLetteredAt), dash(excerpt(oneLine(d.Reason)))); err != nil {
			return err
		}
	}
	return t.flush()
}

func (a *app) deadLettersRedrive() *cobra.Command {
	var ids []string
	cmd := a.command("redrive STREAM GROUP [--ids ID,…]", "Hand dead letters out again", cobra.ExactArgs(2),
		func(ctx context.Context, args []string) error {
			return a.withStore(ctx, func(inst *rheo.Instance) error {
				bar := a.progress("redriving", 0, nil)
				n, err := redrive(ctx, inst, args[0], args[1], ids)
				bar.stop()
				if err != nil {
					return err
				}
				result := map[string]any{"stream": args[0], "group": args[1], "redriven": n}
				return a.say(result, "%s of stream %s will be handed to group %s again, from attempt 1",
					plural(n, "dead letter"), args[0], args[1])
			})
		})
	cmd.Flags().StringSliceVar(&ids, "ids", nil, "only the dead letters of these event IDs (default all)")
	return cmd
}

// redrive replays the group's dead letters, a page at a time. Pages follow the
// cursor, so that a letter which a running consumer has just made anew is not
// redriven twice.
func redrive(ctx context.Context, inst *rheo.Instance, stream, group string, ids []string) (total int64, err error) {
	const pageSize = 1000
	var cursor rheo.Cursor
	missing := slices.Clone(ids)
	for more := true; more; {
		page, err := inst.DeadLettersPage(ctx, stream, group, cursor, pageSize)
		if err != nil {
			return total, err
		}
		sequences := make(map[int][]int64)
		for _, d := range page.DeadLetters {
			if ids == nil || slices.Contains(ids, d.EventID) {
				sequences[d.Partition] = append(sequences[d.Partition], d.Sequence)
				missing = slices.DeleteFunc(missing, func(id string) bool { return id == d.EventID })
			}
		}
		for partition, chosen := range sequences {
			n, err := inst.Replay(ctx, stream, group, exactly(partition, chosen))
			if total += n; err != nil {
				return total, err
			}
		}
		cursor, more = page.Next, page.More
	}
	if len(missing) > 0 {
		return total, fmt.Errorf("no dead letter of group %s has the ID %q; %s", group, missing[0], redrivenSoFar(total))
	}
	return total, nil
}

func redrivenSoFar(total int64) string {
	if total == 0 {
		return "nothing was redriven"
	}
	return plural(total, "other") + " will be handed out again"
}

// exactly selects these events of one partition, which ascend.
func exactly(partition int, sequences []int64) rheo.ReplaySelection {
	return rheo.ReplaySelection{
		Partitions: []int{partition},
		Query: &rheo.Query{
			Partitions: []int{partition},
			After:      sequences[0] - 1,
			Until:      sequences[len(sequences)-1],
			Where:      []rheo.Condition{rheo.Where("sequence", rheo.OpIn, sequences)},
		},
	}
}
