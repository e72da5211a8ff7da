package backendtest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rheo-go/rheo"
)

// A call is one of the Instance's methods with arguments that are good, as long
// as the stream and the group exist.
type call struct {
	name string
	on   scope
	do   func(ctx context.Context, in *rheo.Instance, stream, group string) error
}

// A scope is what a call is about.
type scope int

const (
	onStore scope = iota
	onStream
	onGroup
)

// calls returns every call that the backend supports.
func (s *subject) calls() []call {
	all := slices.Concat(storeCalls(), streamCalls(), groupCalls())
	if !s.backend.Capabilities().Guarantees.Replay {
		all = slices.DeleteFunc(all, func(c call) bool { return strings.HasPrefix(c.name, "Re") && c.name != "Read" && c.name != "Renew" })
	}
	return all
}

func storeCalls() []call {
	return []call{
		{"EnsureSchema", onStore, func(ctx context.Context, in *rheo.Instance, _, _ string) error {
			return in.EnsureSchema(ctx)
		}},
		{"Ping", onStore, func(ctx context.Context, in *rheo.Instance, _, _ string) error {
			return in.Ping(ctx)
		}},
		{"CreateStream", onStore, func(ctx context.Context, in *rheo.Instance, stream, _ string) error {
			return in.CreateStream(ctx, stream+" new", rheo.StreamConfig{})
		}},
		{"Streams", onStore, func(ctx context.Context, in *rheo.Instance, _, _ string) error {
			_, err := in.Streams(ctx)
			return err
		}},
	}
}

func streamCalls() []call {
	return []call{
		{"StreamInfo", onStream, func(ctx context.Context, in *rheo.Instance, stream, _ string) error {
			_, err := in.StreamInfo(ctx, stream)
			return err
		}},
		{"Append", onStream, func(ctx context.Context, in *rheo.Instance, stream, _ string) error {
			_, err := in.Append(ctx, stream, event("from-a-call"))
			return err
		}},
		{"AppendExpecting", onStream, func(ctx context.Context, in *rheo.Instance, stream, _ string) error {
			_, err := in.AppendExpecting(ctx, stream, rheo.ExpectedSequence{0: 0}, on(0, "from-a-call")...)
			return err
		}},
		{"Prepare", onStream, func(ctx context.Context, in *rheo.Instance, stream, _ string) error {
			_, err := in.Prepare(ctx, stream, event("from-a-call"))
			return err
		}},
		{"Read", onStream, func(ctx context.Context, in *rheo.Instance, stream, _ string) error {
			_, err := in.Read(ctx, stream, 0, 0, 10)
			return err
		}},
		{"Query", onStream, func(ctx context.Context, in *rheo.Instance, stream, _ string) error {
			_, err := in.Query(ctx, stream, rheo.Query{})
			return err
		}},
		{"QueryPage", onStream, func(ctx context.Context, in *rheo.Instance, stream, _ string) error {
			_, err := in.QueryPage(ctx, stream, rheo.Query{}, rheo.Cursor{})
			return err
		}},
		{"QueryAll", onStream, func(ctx context.Context, in *rheo.Instance, stream, _ string) error {
			var last error
			for _, err := range in.QueryAll(ctx, stream, rheo.Query{}) {
				last = err
			}
			return last
		}},
		{"CreateGroup", onStream, func(ctx context.Context, in *rheo.Instance, stream, group string) error {
			return in.CreateGroup(ctx, stream, group+" new", rheo.GroupConfig{})
		}},
		{"Groups", onStream, func(ctx context.Context, in *rheo.Instance, stream, _ string) error {
			_, err := in.Groups(ctx, stream)
			return err
		}},
	}
}

func groupCalls() []call {
	settle := func(outcome rheo.Outcome) func(context.Context, *rheo.Instance, string, string) error {
		return func(ctx context.Context, in *rheo.Instance, stream, group string) error {
			_, err := in.Settle(ctx, rheo.Settlement{Lease: madeUp(stream, group), Outcome: outcome})
			return err
		}
	}
	replay := func(selection rheo.ReplaySelection) func(context.Context, *rheo.Instance, string, string) error {
		return func(ctx context.Context, in *rheo.Instance, stream, group string) error {
			_, err := in.Replay(ctx, stream, group, selection)
			return err
		}
	}
	return []call{
		{"GroupInfo", onGroup, func(ctx context.Context, in *rheo.Instance, stream, group string) error {
			_, err := in.GroupInfo(ctx, stream, group)
			return err
		}},
		{"Lag", onGroup, func(ctx context.Context, in *rheo.Instance, stream, group string) error {
			_, err := in.Lag(ctx, stream, group)
			return err
		}},
		{"DeadLettersPage", onGroup, func(ctx context.Context, in *rheo.Instance, stream, group string) error {
			_, err := in.DeadLettersPage(ctx, stream, group, rheo.Cursor{}, 10)
			return err
		}},
		{"DeadLetters", onGroup, func(ctx context.Context, in *rheo.Instance, stream, group string) error {
			var last error
			for _, err := range in.DeadLetters(ctx, stream, group) {
				last = err
			}
			return last
		}},
		{"Fetch", onGroup, func(ctx context.Context, in *rheo.Instance, stream, group string) error {
			_, err := in.Fetch(ctx, stream, group, rheo.FetchOptions{Max: 10})
			return err
		}},
		{"Renew", onGroup, func(ctx context.Context, in *rheo.Instance, stream, group string) error {
			_, err := in.Renew(ctx, time.Second, madeUp(stream, group))
			return err
		}},
		{"Settle with ack", onGroup, settle(rheo.OutcomeAck)},
		{"Settle with nack", onGroup, settle(rheo.OutcomeNack)},
		{"Settle with reject", onGroup, settle(rheo.OutcomeReject)},
		{"Settle with release", onGroup, settle(rheo.OutcomeRelease)},
		{"Replay from a sequence", onGroup, replay(rheo.ReplaySelection{FromSequence: 1})},
		{"Replay from a time", onGroup, replay(rheo.ReplaySelection{FromTime: time.Unix(1, 0)})},
		{"Replay of a query", onGroup, replay(rheo.ReplaySelection{Query: &rheo.Query{}})},
		{"Replay of IDs", onGroup, replay(rheo.ReplaySelection{IDs: []string{}})},
		{"ResetGroup", onGroup, func(ctx context.Context, in *rheo.Instance, stream, group string) error {
			return in.ResetGroup(ctx, stream, group, rheo.ResetOptions{Confirm: true})
		}},
	}
}

// madeUp returns a lease that no fetch returned.
func madeUp(stream, group string) *rheo.Lease {
	l := &rheo.Lease{Event: event("none"), Group: group, LeaseID: "made up", Receipt: "made up", Attempt: 1}
	l.Stream, l.Sequence = stream, 1
	return l
}
