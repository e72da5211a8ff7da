package rheootel_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// instrumentNames are those that the package makes, by its source.
func instrumentNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, file := range []string{"instruments.go", "gauges.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`"(rheo\.[a-z_.]+)"`).FindAllStringSubmatch(string(source), -1) {
			names = append(names, found[1])
		}
	}
	if len(names) < 15 {
		t.Fatalf("found only %q", names)
	}
	return names
}

// The dashboard and the alert rules ask for metrics that there are, under the names
// that OpenTelemetry's exporter gives them.
func TestDocumentsNameInstruments(t *testing.T) {
	t.Parallel()
	names := instrumentNames(t)
	dashboard, err := os.ReadFile("../docs/grafana/rheo.json")
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(dashboard) {
		t.Error("the dashboard is not JSON")
	}
	guide, err := os.ReadFile("../docs/guides/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	suffix := regexp.MustCompile(`(_seconds)?(_bucket|_count|_total)?$`)
	asked := regexp.MustCompile(`\brheo_(?:events|deliveries|leases|handler|operation|runtime|group)_[a-z_]+`)
	for _, name := range asked.FindAllString(string(dashboard)+string(guide), -1) {
		bare := suffix.ReplaceAllString(name, "")
		if !slices.ContainsFunc(names, func(n string) bool { return strings.ReplaceAll(n, ".", "_") == bare }) {
			t.Errorf("there is no metric %s", name)
		}
	}
}
