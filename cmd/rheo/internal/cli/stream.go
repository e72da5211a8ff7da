package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/spf13/cobra"
)

// streamView is a stream as --json shows it.
type streamView struct {
	Name           string    `json:"name"`
	Partitions     int       `json:"partitions"`
	Events         int64     `json:"events"`
	HighWatermarks []int64   `json:"high_watermarks"`
	CreatedAt      time.Time `json:"created_at"`
}

func viewStream(s *rheo.StreamInfo) streamView {
	return streamView{s.Name, s.Partitions, s.Events(), s.HighWatermarks, s.CreatedAt}
}

func (a *app) streamCommand() *cobra.Command {
	return a.parent("stream", "Make, list and describe streams", a.streamCreate(), a.streamList(), a.streamInfo())
}

func (a *app) streamCreate() *cobra.Command {
	var partitions int
	cmd := a.command("create NAME [--partitions N]", "Make a stream", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error {
			return a.withInstance(ctx, making, func(inst *rheo.Instance) error {
				if err := inst.CreateStream(ctx, args[0], rheo.StreamConfig{Partitions: partitions}); err != nil {
					return err
				}
				info, err := inst.StreamInfo(ctx, args[0])
				if err != nil {
					return err
				}
				return a.say(viewStream(&info), "created stream %s with %s", args[0], plural(partitions, "partition"))
			})
		})
	cmd.Long = `Makes a stream of N partitions, and the store if there is none yet. Order holds
within a partition; consumers share partitions out. The number is for ever.`
	addInt(cmd, &partitions, "partitions", 1, 1, rheo.MaxPartitions, "how many partitions")
	return cmd
}

func (a *app) streamList() *cobra.Command {
	return a.command("list", "List the streams", cobra.NoArgs, func(ctx context.Context, _ []string) error {
		return a.withStore(ctx, func(inst *rheo.Instance) error {
			infos, err := inst.Streams(ctx)
			if err != nil {
				return err
			}
			views := make([]streamView, 0, len(infos))
			for i := range infos {
				views = append(views, viewStream(&infos[i]))
			}
			if a.json {
				return a.printJSON(views)
			}
			t := newTable(a.stdout, "STREAM", ">PARTITIONS", ">EVENTS", "CREATED")
			for _, v := range views {
				if err := t.add(v.Name, strconv.Itoa(v.Partitions), number(v.Events), clock(v.CreatedAt)); err != nil {
					return err
				}
			}
			return t.flush()
		})
	})
}

func (a *app) streamInfo() *cobra.Command {
	return a.command("info NAME", "Describe a stream", cobra.ExactArgs(1), func(ctx context.Context, args []string) error {
		return a.withStore(ctx, func(inst *rheo.Instance) error {
			info, err := inst.StreamInfo(ctx, args[0])
			if err != nil {
				return err
			}
			view := viewStream(&info)
			if err := a.say(view, "stream %s: %s in %s, created %s", view.Name, plural(view.Events, "event"),
				plural(view.Partitions, "partition"), clock(view.CreatedAt)); err != nil || a.json {
				return err
			}
			t := newTable(a.stdout, ">PARTITION", ">HIGH WATERMARK")
			for p, high := range view.HighWatermarks {
				if err := t.add(strconv.Itoa(p), number(high)); err != nil {
					return err
				}
			}
			return t.flush()
		})
	})
}
