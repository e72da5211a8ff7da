package redis

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names a script
	"embed"
	"encoding/hex"

	"github.com/redis/go-redis/v9"
)

//go:embed lua
var files embed.FS

// script is one operation that the server does.
type script struct {
	text string
	hash string
}

// load reads a script, which is made of these files and what all scripts share.
func load(names ...string) *script {
	read := func(name string) string {
		text, err := files.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // it is embedded
		}
		return string(text)
	}
	s := &script{text: read("prelude")}
	for _, name := range names {
		s.text += "\n" + read(name)
	}
	sum := sha1.Sum([]byte(s.text)) //nolint:gosec // see above
	s.hash = hex.EncodeToString(sum[:])
	return s
}

// command is a call of a script. go-redis repeats commands whose answer was lost; a
// settle that went through would then be told that its lease is stale.
type command struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder].
func (command) NoRetry() bool { return true }

// call is a script with what it is called on.
type call struct {
	script *script
	args   []any // of EVALSHA
	reply  any
	err    error
}

func (b *Backend) call(s *script, keys []string, args ...any) *call {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, "evalsha", s.hash, formatInt(int64(len(keys))))
	for _, k := range keys {
		all = append(all, k)
	}
	return &call{script: s, args: append(all, args...)}
}

// one runs one script and returns what it did.
func (b *Backend) one(ctx context.Context, i intent, s *script, keys []string, args ...any) (any, error) {
	c := b.call(s, keys, args...)
	if _, err := b.run(ctx, i, c); err != nil {
		return nil, err
	}
	return c.reply, c.err
}

// run runs the scripts in one round trip, or one to each of a cluster's servers. Each
// call has its own error; the first of them is returned, with how many went through.
func (b *Backend) run(ctx context.Context, i intent, calls ...*call) (ran int, err error) {
	outcomes, err := await(ctx, b, i, func() []outcome { return b.send(ctx, calls) })
	if err != nil {
		for _, c := range calls {
			c.err = err
		}
		return 0, err
	}
	for at, c := range calls {
		c.reply, c.err = outcomes[at].reply, b.failure(outcomes[at].err, i)
		if c.err == nil {
			ran++
		} else if err == nil {
			err = c.err
		}
	}
	return ran, err
}

// outcome is what a call came to. It belongs to who runs it, until it is handed over:
// the caller may be gone by then.
type outcome struct {
	reply any
	err   error
}

// send sends the calls, and those again, with their text, whose script the server does
// not know.
func (b *Backend) send(ctx context.Context, calls []*call) []outcome {
	cmds := make([]command, len(calls))
	for at, c := range calls {
		cmds[at] = command{redis.NewCmd(ctx, c.args...)}
	}
	b.process(ctx, cmds)
	var unknown []command
	var places []int
	for at, c := range calls {
		if code(cmds[at].Err()) == codeNoScript {
			args := append([]any{"eval", c.script.text}, c.args[2:]...)
			unknown, places = append(unknown, command{redis.NewCmd(ctx, args...)}), append(places, at)
		}
	}
	if len(unknown) > 0 {
		b.process(ctx, unknown)
		for i, at := range places {
			cmds[at] = unknown[i]
		}
	}
	outcomes := make([]outcome, len(cmds))
	for at, cmd := range cmds {
		outcomes[at].reply, outcomes[at].err = cmd.Val(), cmd.Err()
	}
	return outcomes
}

// process sends the commands; each has its own error afterwards.
func (b *Backend) process(ctx context.Context, cmds []command) {
	if len(cmds) == 1 {
		_ = b.client.Process(ctx, cmds[0]) // it is the command's own
		return
	}
	pipeline := b.client.Pipeline()
	for _, cmd := range cmds {
		_ = pipeline.Process(ctx, cmd) // it only queues
	}
	_, _ = pipeline.Exec(ctx) // each command has its own
}

// await runs f on a goroutine of its own, and returns what it does, or when the context
// ends: go-redis does not look at it while it waits for an answer.
func await[T any](ctx context.Context, b *Backend, i intent, f func() T) (result T, err error) {
	if ctx.Done() == nil {
		return f(), nil
	}
	done := make(chan T, 1)
	b.running.Run(func() { done <- f() })
	select {
	case result = <-done:
		return result, nil
	case <-ctx.Done():
		return result, b.failure(ctx.Err(), i)
	}
}

// ask sends a command that only reads, which go-redis may repeat.
func ask[T any](ctx context.Context, b *Backend, f func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	a, err := await(ctx, b, reading, func() answer {
		value, err := f()
		return answer{value, err}
	})
	if err != nil {
		return a.value, err
	}
	return a.value, b.failure(a.err, reading)
}
