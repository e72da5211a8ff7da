package rheo_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rheo-go/rheo"
)

type placed struct {
	Total int64 `json:"total"`
}

// deliver returns what the handler makes of an event.
func deliver(t *testing.T, handler rheo.Handler, eventType, payload string) error {
	t.Helper()
	return handler(t.Context(), &rheo.Delivery{Lease: &rheo.Lease{Event: rheo.Event{Type: eventType, Payload: json.RawMessage(payload)}}})
}

// What the handler returns stands; it is not called with what it cannot read.
func TestHandle(t *testing.T) {
	t.Parallel()
	var got []int64
	handler := rheo.Handle(func(_ context.Context, _ *rheo.Delivery, p placed) error {
		got = append(got, p.Total)
		return errHandler
	})
	big := `{"total": 9223372036854775807}`
	for payload, want := range map[string]error{big: errHandler, "null": errHandler, `"text"`: nil, "": nil} {
		err := deliver(t, handler, "", payload)
		if want != nil && !errors.Is(err, want) || want == nil && (err == nil || errors.Is(err, errHandler)) {
			t.Errorf("%q: %v", payload, err)
		}
	}
	equal(t, "decoded", slices.Sorted(slices.Values(got)), []int64{0, 1<<63 - 1})
	pointer := rheo.Handle(func(_ context.Context, _ *rheo.Delivery, p *placed) error {
		if p != nil {
			t.Errorf("null was decoded to %+v", p)
		}
		return nil
	})
	if err := deliver(t, pointer, "", "null"); err != nil {
		t.Error(err)
	}
}

// An undecodable payload is a dead letter at its first attempt, with what is wrong
// as its reason; a decodable one's outcome is the handler's.
func TestUndecodableIsRejected(t *testing.T) {
	t.Parallel()
	bubble(t, func(b *bench) {
		for id, payload := range map[string]string{"good": `{"total": 7, "more": 1}`, "text": `{"total": "7"}`, "list": `[]`} {
			_, err := b.Append(b.t.Context(), "stream", rheo.Event{ID: id, Payload: json.RawMessage(payload)})
			b.must(err)
		}
		run := b.start(rheo.GroupOptions{Handler: rheo.Handle(func(_ context.Context, d *rheo.Delivery, p placed) error {
			if d.ID != "good" || p.Total != 7 {
				b.t.Errorf("%s: %+v", d.ID, p)
			}
			return nil
		})})
		synctest.Wait()
		run.stop()
		dead := sorted(b.deadLetters())
		if len(dead) != 2 || !strings.HasPrefix(dead[0], "list: the payload is no rheo_test.placed: json:") || !strings.Contains(dead[1], "Go struct field placed.total") {
			b.t.Errorf("dead letters %v", dead)
		}
		if lag := b.lag(); lag != 0 {
			b.t.Errorf("lag %d", lag)
		}
	})
}

func TestMux(t *testing.T) {
	t.Parallel()
	errUnknown := errors.New("unknown")
	handlers := map[string]rheo.Handler{
		"a": func(context.Context, *rheo.Delivery) error { return errHandler },
		"":  func(context.Context, *rheo.Delivery) error { return nil },
	}
	mux, err := rheo.NewMux(func(context.Context, *rheo.Delivery) error { return errUnknown }, handlers)
	if err != nil {
		t.Fatal(err)
	}
	clear(handlers) // the mux has its own
	for eventType, want := range map[string]error{"a": errHandler, "": nil, "b": errUnknown, "A": errUnknown} {
		if err := deliver(t, mux.Handle, eventType, "{}"); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", eventType, err, want)
		}
	}
	for name, make := range map[string]func() (*rheo.Mux, error){
		"unknown": func() (*rheo.Mux, error) { return rheo.NewMux(nil, nil) },
		`type "a"`: func() (*rheo.Mux, error) {
			return rheo.NewMux(rheo.AckUnknown, map[string]rheo.Handler{"a": nil})
		},
	} {
		if _, err := make(); !errors.Is(err, rheo.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("nil for %s: %v", name, err)
		}
	}
}

// Unknown types are rejected or acked, as was chosen.
func TestUnknownTypes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		unknown rheo.Handler
		dead    []string
	}{
		"reject": {rheo.RejectUnknown, []string{`e: no handler for events of type "strange"`}},
		"ack":    {rheo.AckUnknown, nil},
	} {
		bubble(t, func(b *bench) {
			mux, err := rheo.NewMux(test.unknown, nil)
			b.must(err)
			_, err = b.Append(b.t.Context(), "stream", rheo.Event{ID: "e", Type: "strange"})
			b.must(err)
			run := b.start(rheo.GroupOptions{Handler: mux.Handle})
			synctest.Wait()
			run.stop()
			equal(b.t, name, b.deadLetters(), test.dead)
			if lag := b.lag(); lag != 0 {
				b.t.Errorf("%s: lag %d", name, lag)
			}
		})
	}
}
