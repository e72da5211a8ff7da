package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rheo-go/rheo"
	"github.com/spf13/cobra"
)

// intFlag is a whole number within bounds.
type intFlag struct {
	to        *int
	low, high int
}

func (f intFlag) String() string {
	if f.to == nil || *f.to == 0 {
		return ""
	}
	return strconv.Itoa(*f.to)
}

func (intFlag) Type() string { return "N" }

func (f intFlag) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < f.low || n > f.high {
		return fmt.Errorf("must be a whole number from %d to %d", f.low, f.high)
	}
	*f.to = n
	return nil
}

// intsFlag is a list of whole numbers, separated by commas.
type intsFlag struct {
	to        *[]int
	low, high int
	set       *bool
}

func (f intsFlag) String() string {
	if f.to == nil {
		return ""
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(*f.to), " ", ","), "[]")
}

func (intsFlag) Type() string { return "N,..." }

func (f intsFlag) Set(s string) error {
	if !*f.set {
		*f.to, *f.set = nil, true // the default
	}
	for word := range strings.SplitSeq(s, ",") {
		var n int
		if err := (intFlag{&n, f.low, f.high}).Set(strings.TrimSpace(word)); err != nil {
			return fmt.Errorf("%q %w", word, err)
		}
		*f.to = append(*f.to, n)
	}
	return nil
}

func addInt(cmd *cobra.Command, to *int, name string, value, low, high int, usage string) {
	*to = value
	cmd.Flags().Var(intFlag{to, low, high}, name, usage)
}

func addInts(cmd *cobra.Command, to *[]int, name string, value []int, low, high int, usage string) {
	*to = value
	cmd.Flags().Var(intsFlag{to, low, high, new(bool)}, name, usage)
}

func addPartitions(cmd *cobra.Command, to *[]int, usage string) {
	addInts(cmd, to, "partitions", nil, 0, rheo.MaxPartitions-1, usage)
}

// sequenceFlag is a sequence: 0 or more.
type sequenceFlag struct{ to *int64 }

func (f sequenceFlag) String() string { return "" }
func (f sequenceFlag) Type() string   { return "N" }

func (f sequenceFlag) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return errors.New("must be a sequence: a whole number, 0 or more")
	}
	*f.to = n
	return nil
}

// durationFlag is a duration within bounds.
type durationFlag struct {
	to        *time.Duration
	low, high time.Duration
}

func (f durationFlag) String() string {
	if f.to == nil || *f.to == 0 {
		return ""
	}
	return f.to.String()
}

func (durationFlag) Type() string { return "DURATION" }

func (f durationFlag) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d < f.low || d > f.high {
		return fmt.Errorf("must be a duration from %v to %v, as in 500ms, 30s or 5m", f.low, f.high)
	}
	*f.to = d
	return nil
}

// timeFlag is a point in time.
type timeFlag struct{ to *time.Time }

func (f timeFlag) String() string { return "" }
func (f timeFlag) Type() string   { return "TIME" }

func (f timeFlag) Set(s string) (err error) {
	*f.to, err = parseTime(s)
	return err
}

var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly,
}

// parseTime reads an RFC 3339 time or a part of one, in UTC unless it says
// otherwise, or milliseconds since 1970.
func parseTime(s string) (time.Time, error) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		return checkYear(time.UnixMilli(ms).UTC())
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return checkYear(t.UTC())
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: write 2018-02-01T12:00:00Z, 2018-02-01, or milliseconds since 1970", s)
}

func checkYear(t time.Time) (time.Time, error) {
	if t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}, errors.New("a time must lie in the years 1 to 9999")
	}
	return t, nil
}

// startFlag is where a group begins: start, end, a sequence or a time.
type startFlag struct{ to *rheo.Start }

func (f startFlag) String() string { return "" }
func (f startFlag) Type() string   { return "start|end|SEQUENCE|TIME" }

func (f startFlag) Set(s string) error {
	switch n, err := strconv.ParseInt(s, 10, 64); {
	case s == "start":
		*f.to = rheo.StartBeginning()
		return nil
	case s == "end":
		*f.to = rheo.StartEnd()
		return nil
	case err == nil && n >= 1:
		*f.to = rheo.StartAfter(n - 1)
		return nil
	case err == nil:
		return errors.New("a sequence is 1 or more")
	}
	t, err := parseTime(s)
	if err != nil {
		return errors.New("must be start, end, a sequence, or a time such as 2018-02-01T12:00:00Z")
	}
	*f.to = rheo.StartTime(t)
	return nil
}

// choiceFlag is one word of a few.
type choiceFlag struct {
	to      *string
	choices []string
}

func (f choiceFlag) String() string {
	if f.to == nil {
		return ""
	}
	return *f.to
}

func (f choiceFlag) Type() string { return strings.Join(f.choices, "|") }

func (f choiceFlag) Set(s string) error {
	if !slices.Contains(f.choices, s) {
		return fmt.Errorf("must be %s", strings.Join(f.choices, " or "))
	}
	*f.to = s
	return nil
}

// whereFlag collects conditions.
type whereFlag struct{ to *[]rheo.Condition }

func (f whereFlag) String() string { return "" }
func (f whereFlag) Type() string   { return "'PATH OP VALUE'" }

func (f whereFlag) Set(s string) error {
	c, err := parseWhere(s)
	if err != nil {
		return err
	}
	*f.to = append(*f.to, c)
	return nil
}
