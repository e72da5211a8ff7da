package rheo

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rheo-go/rheo/internal/jsonscan"
)

// The limits on what a caller may pass in. They are the same on every backend
// and are checked before anything is written; a violation is [ErrInvalid] with
// the field and the limit in its message.
const (
	MaxNameBytes      = 255      // names of streams, groups, consumers; event IDs and types; metadata keys
	MaxKeyBytes       = 1024     // an event's key
	MaxMetadataBytes  = 64 << 10 // an event's metadata, keys and values together
	MaxReasonBytes    = 1000     // a nack's or reject's reason; longer ones are cut
	MaxPartitions     = 1024     // partitions of a stream
	MaxBatch          = 10_000   // events of one append; leases of one fetch, renew or settle
	MaxPayloadDefault = 1 << 20  // an event's payload, unless Options.MaxPayload says otherwise
	MaxPayloadDepth   = jsonscan.MaxDepth
	MaxAttemptsLimit  = 1_000_000 // a group's MaxAttempts

	// DefaultMaxAttempts is a group's MaxAttempts if none is given.
	DefaultMaxAttempts = 5
	// DefaultLeaseDuration is a fetch's lease if none is given.
	DefaultLeaseDuration = 30 * time.Second
	// MinLeaseDuration and MaxLeaseDuration bound a fetch's or renewal's lease.
	MinLeaseDuration = 10 * time.Millisecond
	MaxLeaseDuration = 24 * time.Hour
	// MaxDelay bounds a nack's delay.
	MaxDelay = 365 * 24 * time.Hour
)

var (
	minTimestamp = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	endTimestamp = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
)

func checkName(field, name string) error {
	if name == "" || len(name) > MaxNameBytes {
		return invalidf(field, "has %d bytes, must have 1 to %d", len(name), MaxNameBytes)
	}
	return checkPrintable(field, name)
}

func checkPrintable(field, s string) error {
	if isPrintableASCII(s) {
		return nil
	}
	if !utf8.ValidString(s) {
		return invalidf(field, "must be valid UTF-8")
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return invalidf(field, "holds %U, must be printable characters", r)
		}
	}
	return nil
}

func isPrintableASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func checkText(field, s string, limit int) error {
	switch {
	case len(s) > limit:
		return invalidf(field, "has %d bytes, the limit is %d", len(s), limit)
	case !utf8.ValidString(s):
		return invalidf(field, "must be valid UTF-8")
	case strings.IndexByte(s, 0) >= 0:
		return invalidf(field, "holds a NUL character")
	}
	return nil
}

func checkMetadata(metadata map[string]string) error {
	total := 0
	for k, v := range metadata {
		if err := checkName("metadata key", k); err != nil {
			return err
		}
		if err := checkText("metadata["+k+"]", v, MaxMetadataBytes); err != nil {
			return err
		}
		total += len(k) + len(v)
	}
	if total > MaxMetadataBytes {
		return invalidf("metadata", "has %d bytes, the limit is %d", total, MaxMetadataBytes)
	}
	return nil
}

func checkPayload(payload json.RawMessage, limit int) error {
	if len(payload) > limit {
		return invalidf("payload", "has %d bytes, the limit is %d", len(payload), limit)
	}
	if err := jsonscan.Validate(payload); err != nil {
		return &Error{Kind: ErrInvalid, Detail: "payload must be JSON", Cause: err}
	}
	return nil
}

func checkTimestamp(t time.Time) error {
	if t.Before(minTimestamp) || !t.Before(endTimestamp) {
		return invalidf("timestamp", "must lie in the years 1 to 9999")
	}
	return nil
}

func checkRange(field string, n, low, high int64) error {
	if n < low || n > high {
		return invalidf(field, "is %d, must be %d to %d", n, low, high)
	}
	return nil
}

func checkPartitions(partitions []int, count int) error {
	for i, p := range partitions {
		if p < 0 || p >= count {
			return invalidf("partition", "is %d, the stream has partitions 0 to %d", p, count-1)
		}
		if slices.Contains(partitions[:i], p) {
			return invalidf("partitions", "name %d twice", p)
		}
	}
	return nil
}

func checkLeaseDuration(d time.Duration) error {
	if d < MinLeaseDuration || d > MaxLeaseDuration {
		return invalidf("lease duration", "is %v, must be %v to %v", d, MinLeaseDuration, MaxLeaseDuration)
	}
	return nil
}

// storedReason makes any text fit to be kept as a reason: a handler's error is
// not worth failing a settle for.
func storedReason(s string) string {
	if s == "" {
		return s
	}
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
	if len(s) <= MaxReasonBytes {
		return s
	}
	return strings.ToValidUTF8(s[:MaxReasonBytes], "")
}
