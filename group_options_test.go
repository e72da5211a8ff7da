package rheo_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/memory"
)

// What is wrong with the options is said at once, with the field and its limit.
func TestGroupOptions(t *testing.T) {
	t.Parallel()
	instance, err := rheo.New(memory.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	second := time.Second
	for change, test := range map[string]struct {
		change func(*rheo.GroupOptions)
		want   string // nothing: it is fine
	}{
		"defaults":           {func(*rheo.GroupOptions) {}, ""},
		"no stream":          {func(o *rheo.GroupOptions) { o.Stream = "" }, "GroupOptions.Stream has 0 bytes, must have 1 to 255"},
		"no group":           {func(o *rheo.GroupOptions) { o.Group = "" }, "GroupOptions.Group has 0 bytes, must have 1 to 255"},
		"long consumer":      {func(o *rheo.GroupOptions) { o.ConsumerID = strings.Repeat("c", 256) }, "GroupOptions.ConsumerID has 256 bytes, must have 1 to 255"},
		"unprintable":        {func(o *rheo.GroupOptions) { o.ConsumerID = "\x01" }, "GroupOptions.ConsumerID holds U+0001, must be printable"},
		"no handler":         {func(o *rheo.GroupOptions) { o.Handler = nil }, "GroupOptions.Handler must not be nil"},
		"concurrency < 0":    {func(o *rheo.GroupOptions) { o.Concurrency = -1 }, "GroupOptions.Concurrency is -1, must be 1 to 10000"},
		"concurrency > most": {func(o *rheo.GroupOptions) { o.Concurrency = 10_001 }, "GroupOptions.Concurrency is 10001, must be 1 to 10000"},
		"concurrency most":   {func(o *rheo.GroupOptions) { o.Concurrency = 10_000 }, ""},
		"demand < concurrency": {
			func(o *rheo.GroupOptions) { o.Concurrency, o.MaxDemand = 5, 4 },
			"GroupOptions.MaxDemand is 4, must be 5 to 20000",
		},
		"demand > most": {func(o *rheo.GroupOptions) { o.MaxDemand = 20_001 }, "GroupOptions.MaxDemand is 20001, must be 10 to 20000"},
		"demand most":   {func(o *rheo.GroupOptions) { o.MaxDemand = 20_000 }, ""},
		"lease short":   {func(o *rheo.GroupOptions) { o.LeaseDuration = 9 * time.Millisecond }, "GroupOptions.LeaseDuration is 9ms, must be 10ms to 24h0m0s"},
		"lease long":    {func(o *rheo.GroupOptions) { o.LeaseDuration = 25 * time.Hour }, "GroupOptions.LeaseDuration is 25h0m0s, must be 10ms to 24h0m0s"},
		"poll < 0":      {func(o *rheo.GroupOptions) { o.PollInterval = -second }, "GroupOptions.PollInterval is -1s, must not be negative"},
		"drain < 0":     {func(o *rheo.GroupOptions) { o.DrainTimeout = -second }, "GroupOptions.DrainTimeout is -1s, must not be negative"},
		"settle < 0":    {func(o *rheo.GroupOptions) { o.SettleTimeout = -second }, "GroupOptions.SettleTimeout is -1s, must not be negative"},
		"both handlers": {
			func(o *rheo.GroupOptions) { o.BatchHandler = newWindowed().by(nil) },
			"GroupOptions.BatchHandler must be nil if Handler is not",
		},
		"size without batches": {
			func(o *rheo.GroupOptions) { o.BatchSize = 5 },
			"GroupOptions.BatchSize and BatchWait must be 0 without a BatchHandler",
		},
		"wait without batches": {
			func(o *rheo.GroupOptions) { o.BatchWait = second },
			"GroupOptions.BatchSize and BatchWait must be 0 without a BatchHandler",
		},
		"batches":            {func(*rheo.GroupOptions) {}, ""},
		"batch size < 0":     {func(o *rheo.GroupOptions) { o.BatchSize = -1 }, "GroupOptions.BatchSize is -1, must be 1 to 10000"},
		"batch size > most":  {func(o *rheo.GroupOptions) { o.BatchSize = 10_001 }, "GroupOptions.BatchSize is 10001, must be 1 to 10000"},
		"batch size most":    {func(o *rheo.GroupOptions) { o.BatchSize, o.Concurrency = 10_000, 10_000 }, ""},
		"batch wait < 0":     {func(o *rheo.GroupOptions) { o.BatchWait = -second }, "GroupOptions.BatchWait is -1s, must not be negative"},
		"batch above demand": {func(o *rheo.GroupOptions) { o.BatchSize, o.MaxDemand = 50, 49 }, "GroupOptions.MaxDemand is 49, must be 50 to 20000"},
		"retry falls":        {func(o *rheo.GroupOptions) { o.RetryBackoff = rheo.Backoff{Min: 2, Max: 1} }, "GroupOptions.RetryBackoff is 2ns to 1ns, must rise from more than 0"},
		"retry stays 0":      {func(o *rheo.GroupOptions) { o.RetryBackoff = rheo.Backoff{Max: second} }, "GroupOptions.RetryBackoff is 0s to 1s, must rise from more than 0"},
		"store too long": {
			func(o *rheo.GroupOptions) { o.StoreBackoff = rheo.Backoff{Min: second, Max: rheo.MaxDelay + 1} },
			"GroupOptions.StoreBackoff is 1s to",
		},
	} {
		o := rheo.GroupOptions{Stream: "stream", Group: "group", Handler: newHandled().by(nil)}
		if strings.HasPrefix(change, "batch") {
			o.Handler, o.BatchHandler = nil, newWindowed().by(nil)
		}
		test.change(&o)
		_, err := rheo.NewGroup(instance, o)
		if test.want == "" && err != nil || test.want != "" && (!errors.Is(err, rheo.ErrInvalid) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", change, err, test.want)
		}
	}
	if _, err := rheo.NewGroup(nil, rheo.GroupOptions{}); !errors.Is(err, rheo.ErrInvalid) {
		t.Errorf("no instance: %v", err)
	}
}
