package prometheustest

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	client "github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.yaml.in/yaml/v3"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/memory"
	"github.com/rheo-go/rheo/rheootel"
)

// metricName matches the names of series; labels are those of labelNames.
var metricName = regexp.MustCompile(`\brheo_[a-z_]+`)

var labelNames = []string{"rheo_stream", "rheo_group", "rheo_operation", "rheo_outcome", "rheo_reason"}

// TestNames serves every metric, and looks for what is asked of Prometheus.
func TestNames(t *testing.T) {
	t.Parallel()
	served := serve(t)
	dashboard, guide := read(t, "docs/grafana/rheo.json"), read(t, "docs/guides/observability.md")
	for file, content := range map[string]string{"the dashboard": dashboard, "the guide": fenced(t, guide, "yaml")} {
		names := metricName.FindAllString(content, -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, name := range names {
			if !slices.Contains(labelNames, name) && !slices.Contains(served, name) {
				t.Errorf("%s names %s, which is not served", file, name)
			}
		}
	}
	for _, name := range served {
		if !strings.Contains(name, "_bucket") && !strings.Contains(name, "_sum") && !strings.Contains(dashboard, strings.TrimSuffix(name, "_count")) {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

// serve returns the names of the series, once each thing that can be measured has
// happened.
func serve(t *testing.T) []string {
	t.Helper()
	registry := client.NewRegistry()
	exporter, err := prometheus.New(prometheus.WithRegisterer(registry))
	must(t, err)
	observer, err := rheootel.New(&rheootel.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(exporter))})
	must(t, err)
	r, err := rheo.New(memory.New(nil), &rheo.Options{Observer: observer, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	registration, err := observer.RegisterGauges(r, rheootel.GaugeOptions{Groups: []rheootel.GroupName{{Stream: "orders", Group: "billing"}}})
	must(t, err)
	defer func() { must(t, registration.Unregister()) }()

	var names []string
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	must(t, r.CreateStream(ctx, "orders", rheo.StreamConfig{}))
	must(t, r.CreateGroup(ctx, "orders", "billing", rheo.GroupConfig{MaxAttempts: 1}))
	for range 2 {
		_, err = r.Append(ctx, "orders", rheo.Event{ID: "order-1"})
		must(t, err)
	}
	lease, err := r.Fetch(ctx, "orders", "billing", rheo.FetchOptions{})
	must(t, err)
	_, err = r.Renew(ctx, rheo.DefaultLeaseDuration, lease...)
	must(t, err)
	must(t, r.Release(ctx, lease...))
	for _, e := range []rheo.RuntimeEvent{
		{Kind: rheo.RuntimeOutageBegan, Operation: rheo.OperationFetch}, {Kind: rheo.RuntimeLeasesLost, Count: 1}, {Kind: rheo.RuntimeWoken},
	} {
		observer.ObserveRuntime(ctx, e)
	}
	observer.EndOperation(ctx, rheo.OperationEnd{OperationStart: rheo.OperationStart{Operation: rheo.OperationFetch}, Redelivered: 1})
	group, err := rheo.NewGroup(r, rheo.GroupOptions{
		Stream: "orders", Group: "billing", Concurrency: 1,
		Handler: func(context.Context, *rheo.Delivery) error {
			defer cancel()
			observer.EndHandler(ctx, rheo.HandlerEnd{
				HandlerStart: rheo.HandlerStart{Stream: "orders", Group: "billing"}, Panicked: true,
				Results: []rheo.HandlerResult{{Outcome: rheo.OutcomeNack, Err: errors.New("panicked")}},
			})
			names = gather(t, registry)
			return rheo.Reject(errors.New("declined"))
		},
	})
	must(t, err)
	must(t, group.Run(ctx))
	for _, name := range gather(t, registry) { // the runtime's gauges are gone, and its dead letter is there
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func gather(t *testing.T, registry *client.Registry) (names []string) {
	t.Helper()
	families, err := registry.Gather()
	must(t, err)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "rheo_") {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if strings.HasPrefix(l.GetName(), "rheo_") && !slices.Contains(labelNames, l.GetName()) {
					t.Errorf("%s has the label %s", f.GetName(), l.GetName())
				}
			}
		}
		if len(f.GetMetric()) > 0 && f.GetMetric()[0].GetHistogram() != nil {
			names = append(names, f.GetName()+"_bucket", f.GetName()+"_count", f.GetName()+"_sum")
		} else {
			names = append(names, f.GetName())
		}
	}
	return names
}

// TestDashboard checks that the file is a dashboard whose panels have each an ID, a
// title, and what they show.
func TestDashboard(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		Title         string
		SchemaVersion int
		Panels        []struct {
			ID      int
			Type    string
			Title   string
			Targets []struct{ Expr string }
		}
	}
	must(t, json.Unmarshal([]byte(read(t, "docs/grafana/rheo.json")), &dashboard))
	if dashboard.Title == "" || dashboard.SchemaVersion == 0 || len(dashboard.Panels) == 0 {
		t.Error("the file is no dashboard")
	}
	seen := map[int]bool{}
	for _, p := range dashboard.Panels {
		if seen[p.ID] {
			t.Errorf("two panels have the ID %d", p.ID)
		}
		seen[p.ID] = true
		if p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d has no title, or shows nothing", p.ID)
		}
		for _, target := range p.Targets {
			if strings.Count(target.Expr, "(") != strings.Count(target.Expr, ")") || strings.Count(target.Expr, "{") != strings.Count(target.Expr, "}") {
				t.Errorf("panel %q: unbalanced %s", p.Title, target.Expr)
			}
		}
	}
}

// TestAlertRules checks the form of what the guide gives Prometheus to load.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(fenced(t, read(t, "docs/guides/observability.md"), "yaml")))
	decoder.KnownFields(true)
	must(t, decoder.Decode(&file))
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) < 4 {
		t.Fatalf("too few rules: %+v", file)
	}
	for _, rule := range file.Groups[0].Rules {
		if rule.Alert == "" || rule.Expr == "" || rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" {
			t.Errorf("rule %q lacks something", rule.Alert)
		}
	}
}

// fenced returns the one code block of that language.
func fenced(t *testing.T, markdown, language string) string {
	t.Helper()
	_, after, _ := strings.Cut(markdown, "\n```"+language+"\n")
	block, _, found := strings.Cut(after, "\n```\n")
	if !found {
		t.Fatalf("no block of %s", language)
	}
	return block
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
	must(t, err)
	return string(content)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
