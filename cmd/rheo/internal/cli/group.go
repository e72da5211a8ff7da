package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/spf13/cobra"
)

// groupView is a group as --json shows it: what lag shows, and more.
type groupView struct {
	Stream               string          `json:"stream"`
	Group                string          `json:"group"`
	Lag                  int64           `json:"lag"`
	Partitions           []partitionView `json:"partitions"`
	InFlight             int64           `json:"in_flight"`
	Waiting              int64           `json:"waiting"`
	DeadLetters          int64           `json:"dead_letters"`
	OldestUnackedSeconds float64         `json:"oldest_unacked_seconds"`
	MaxAttempts          int             `json:"max_attempts"`
	Ordering             rheo.Ordering   `json:"ordering"`
	Full                 bool            `json:"full"`
	CreatedAt            time.Time       `json:"created_at"`
}

type partitionView struct {
	rheo.PartitionLag
	Cursor               int64   `json:"cursor"`
	InFlight             int64   `json:"in_flight"`
	Waiting              int64   `json:"waiting"`
	OldestUnackedSeconds float64 `json:"oldest_unacked_seconds"`
	Full                 bool    `json:"full"`
}

func viewGroup(g *rheo.GroupInfo) groupView {
	v := groupView{
		Stream: g.Stream, Group: g.Group, Lag: g.Lag(), InFlight: g.InFlight(), Waiting: g.Waiting(),
		DeadLetters: g.DeadLetters, OldestUnackedSeconds: g.OldestUnacked().Seconds(),
		MaxAttempts: g.MaxAttempts, Ordering: g.Ordering, Full: g.Full(), CreatedAt: g.CreatedAt,
		Partitions: make([]partitionView, 0, len(g.Partitions)),
	}
	for _, p := range g.Partitions {
		v.Partitions = append(v.Partitions, partitionView{
			PartitionLag: rheo.PartitionLag{Partition: p.Partition, Frontier: p.Frontier, HighWatermark: p.HighWatermark, Lag: p.Lag},
			Cursor:       p.Cursor, InFlight: p.InFlight, Waiting: p.Waiting,
			OldestUnackedSeconds: p.OldestUnacked.Seconds(), Full: p.Full,
		})
	}
	return v
}

func (a *app) groupCommand() *cobra.Command {
	return a.parent("group", "Make, list and describe consumer groups", a.groupCreate(), a.groupList(), a.groupInfo())
}

func (a *app) groupCreate() *cobra.Command {
	config := rheo.GroupConfig{}
	ordering := string(rheo.OrderingNone)
	cmd := a.command("create STREAM GROUP [flags]", "Make a consumer group", cobra.ExactArgs(2),
		func(ctx context.Context, args []string) error {
			config.Ordering = rheo.Ordering(ordering)
			return a.withStore(ctx, func(inst *rheo.Instance) error {
				if err := inst.CreateGroup(ctx, args[0], args[1], config); err != nil {
					return err
				}
				info, err := inst.GroupInfo(ctx, args[0], args[1])
				if err != nil {
					return err
				}
				return a.say(viewGroup(&info), "created group %s on stream %s, %s behind", args[1], args[0], plural(info.Lag(), "event"))
			})
		})
	cmd.Long = `Makes a group: a durable reader of the stream, independent of all others. --from
says where it begins: at the start, at the end (with what is appended from now
on), at a sequence (that one is the first, in each partition), or at a time.
An event is handed out up to --max-attempts times, then it is a dead letter.`
	addInt(cmd, &config.MaxAttempts, "max-attempts", rheo.DefaultMaxAttempts, 1, rheo.MaxAttemptsLimit, "how often an event is tried")
	cmd.Flags().Var(startFlag{&config.Start}, "from", "where it begins (default start)")
	cmd.Flags().Var(choiceFlag{&ordering, []string{string(rheo.OrderingNone), string(rheo.OrderingPartition)}}, "ordering",
		"whether an event that fails holds up its partition")
	addPartitions(cmd, &config.Partitions, "read these partitions only (default all)")
	return cmd
}

func (a *app) groupList() *cobra.Command {
	return a.command("list STREAM", "List a stream's groups", cobra.ExactArgs(1), func(ctx context.Context, args []string) error {
		return a.withStore(ctx, func(inst *rheo.Instance) error {
			groups, err := inst.Groups(ctx, args[0])
			if err != nil {
				return err
			}
			views := make([]groupView, 0, len(groups))
			for _, group := range groups {
				info, err := inst.GroupInfo(ctx, args[0], group)
				if err != nil {
					return err
				}
				views = append(views, viewGroup(&info))
			}
			if a.json {
				return a.printJSON(views)
			}
			t := newTable(a.stdout, "GROUP", ">LAG", ">IN FLIGHT", ">WAITING", ">DEAD LETTERS", ">OLDEST UNACKED", "CREATED")
			for _, v := range views {
				if err := t.add(v.Group, number(v.Lag), number(v.InFlight), number(v.Waiting), number(v.DeadLetters),
					age(seconds(v.OldestUnackedSeconds)), clock(v.CreatedAt)); err != nil {
					return err
				}
			}
			return t.flush()
		})
	})
}

func (a *app) groupInfo() *cobra.Command {
	return a.command("info STREAM GROUP", "Describe a group", cobra.ExactArgs(2), func(ctx context.Context, args []string) error {
		return a.withStore(ctx, func(inst *rheo.Instance) error {
			info, err := inst.GroupInfo(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			view := viewGroup(&info)
			if a.json {
				return a.printJSON(view)
			}
			return a.describeGroup(&view)
		})
	})
}

func (a *app) describeGroup(v *groupView) error {
	if err := a.say(nil, "group %s of stream %s: %s behind, %s in flight, %s waiting, %s dead; at most %s, ordering %s, created %s",
		v.Group, v.Stream, plural(v.Lag, "event"), number(v.InFlight), number(v.Waiting), number(v.DeadLetters),
		plural(v.MaxAttempts, "attempt"), v.Ordering, clock(v.CreatedAt)); err != nil {
		return err
	}
	t := newTable(a.stdout, ">PARTITION", ">CURSOR", ">FRONTIER", ">HIGH WATERMARK", ">LAG", ">IN FLIGHT", ">WAITING", ">OLDEST UNACKED", "")
	for _, p := range v.Partitions {
		note := ""
		if p.Full {
			note = "full: no new events until open ones are settled"
		}
		if err := t.add(strconv.Itoa(p.Partition), number(p.Cursor), number(p.Frontier), number(p.HighWatermark), number(p.Lag),
			number(p.InFlight), number(p.Waiting), age(seconds(p.OldestUnackedSeconds)), note); err != nil {
			return err
		}
	}
	return t.flush()
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (a *app) lagCommand() *cobra.Command {
	return a.command("lag STREAM GROUP", "Show how far a group is behind", cobra.ExactArgs(2),
		func(ctx context.Context, args []string) error {
			return a.withStore(ctx, func(inst *rheo.Instance) error {
				lag, err := inst.Lag(ctx, args[0], args[1])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(lag)
				}
				t := newTable(a.stdout, ">PARTITION", ">FRONTIER", ">HIGH WATERMARK", ">LAG")
				for _, p := range lag.Partitions {
					if err := t.add(strconv.Itoa(p.Partition), number(p.Frontier), number(p.HighWatermark), number(p.Lag)); err != nil {
						return err
					}
				}
				if err := t.add("all", "", "", number(lag.Lag)); err != nil {
					return err
				}
				return t.flush()
			})
		})
}
