package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rheo-go/rheo"
)

// stream is an output that several goroutines write to: the events, the library's
// log, a progress bar, the commands of consume --exec.
type stream struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements [io.Writer].
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// printJSON prints one JSON document.
func (a *app) printJSON(document any) error {
	return outputError(writeJSON(a.stdout, document))
}

func writeJSON(w io.Writer, document any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(document)
}

func outputError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot write the output: %w", err)
}

// say prints a line for people, or the document with --json.
func (a *app) say(document any, format string, args ...any) error {
	if a.json {
		return a.printJSON(document)
	}
	_, err := fmt.Fprintf(a.stdout, format+"\n", args...)
	return outputError(err)
}

// withMetadata makes an event's metadata {} where it is null.
func withMetadata(e rheo.Event) rheo.Event {
	if e.Metadata == nil {
		e.Metadata = map[string]string{}
	}
	return e
}

// table aligns columns for people. A heading that starts with ">" has its column
// aligned to the right.
type table struct {
	w        io.Writer
	headings []string
	rows     [][]string
	began    bool
}

// pageRows is how many rows are aligned with each other before they are printed.
const pageRows = 500

func newTable(w io.Writer, headings ...string) *table { return &table{w: w, headings: headings} }

func (t *table) add(cells ...string) error {
	t.rows = append(t.rows, cells)
	if len(t.rows) < pageRows {
		return nil
	}
	return t.flush()
}

// flush prints the rows so far, under the headings if these are the first.
func (t *table) flush() error {
	titles := make([]string, len(t.headings))
	widths := make([]int, len(t.headings))
	for i, heading := range t.headings {
		titles[i] = strings.TrimPrefix(heading, ">")
		widths[i] = utf8.RuneCountInString(titles[i])
	}
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	if !t.began {
		t.line(&b, titles, widths)
	}
	for _, row := range t.rows {
		t.line(&b, row, widths)
	}
	t.began, t.rows = true, t.rows[:0]
	_, err := io.WriteString(t.w, b.String())
	return outputError(err)
}

func (t *table) line(b *strings.Builder, cells []string, widths []int) {
	var line strings.Builder
	for i, cell := range cells {
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if strings.HasPrefix(t.headings[i], ">") {
			line.WriteString(pad + cell)
		} else {
			line.WriteString(cell + pad)
		}
		line.WriteString("  ")
	}
	b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

// number writes n with a comma before each three digits.
func number[N int | int64 | uint64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	start := len(s) % 3
	if n < 0 {
		start = (len(s)-1)%3 + 1
	}
	var b strings.Builder
	for i, digit := range s {
		if i > 0 && i >= start && (i-start)%3 == 0 && s[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return b.String()
}

// plural writes "1 event" and "2 events".
func plural[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return number(n) + " " + thing + "s"
}

// clock writes a time for people.
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// age writes a duration for people, as exactly as it matters.
func age(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return d.Round(time.Minute).String()[:len(d.Round(time.Minute).String())-2]
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// dash stands for what is empty.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// excerpt cuts a text for a table's last column.
func excerpt(s string) string {
	const most = 80
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// eventPrinter prints events as they come: a table, or NDJSON.
type eventPrinter struct {
	json  *json.Encoder
	table *table
}

func (a *app) eventPrinter(w io.Writer) *eventPrinter {
	if a.json {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return &eventPrinter{json: e}
	}
	return &eventPrinter{table: newTable(w, ">PARTITION", ">SEQUENCE", "TIME", "TYPE", "KEY", "ID", "PAYLOAD")}
}

func (p *eventPrinter) print(e rheo.Event) error {
	if p.json != nil {
		return outputError(p.json.Encode(withMetadata(e)))
	}
	return p.table.add(strconv.Itoa(e.Partition), strconv.FormatInt(e.Sequence, 10), clock(e.Timestamp),
		dash(e.Type), dash(oneLine(e.Key)), e.ID, excerpt(oneLine(string(e.Payload))))
}

func (p *eventPrinter) flush() error {
	if p.json != nil {
		return nil
	}
	return p.table.flush()
}

// flushRows prints what has been found before an error, if anything has.
func (p *eventPrinter) flushRows() error {
	if p.json != nil || len(p.table.rows) == 0 {
		return nil
	}
	return p.table.flush()
}

// oneLine keeps a text from breaking a table or a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}
