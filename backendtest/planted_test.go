package backendtest_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rheo-go/rheo/backendtest"
)

// planted names, for each bug that the naive backend can have, a case that must
// fail because of it.
var planted = map[string]string{
	"gap":                                "log/no gaps for a reader that follows concurrent writers",
	"watermark ahead":                    "log/no gaps for a reader that follows concurrent writers",
	"after is inclusive":                 "log/read goes by after and limit",
	"read is not limited":                "log/read goes by after and limit",
	"metadata trimmed":                   "log/metadata comes back",
	"milliseconds":                       "log/timestamps are kept to the microsecond in UTC",
	"local time":                         "log/timestamps are kept to the microsecond in UTC",
	"keeps arguments":                    "log/a caller may change what it passed in",
	"lends its memory":                   "log/a caller may change what it got",
	"acks delete":                        "log/consumption deletes nothing",
	"streams by locale":                  "log/streams are listed by name with their watermarks",
	"stream created again":               "log/a stream is created once",
	"trailing blanks":                    "log/streams are apart",
	"group before stream":                "log/an unknown stream is told by every call",
	"schema made anew":                   "log/the schema may be ensured again",
	"batch in pieces":                    "append/a batch keeps its order with nothing in between",
	"half a batch":                       "append/a batch is atomic across partitions",
	"small batches":                      "append/the largest batch",
	"not idempotent":                     "append/an ID is appended once",
	"duplicate as given":                 "append/concurrent appends of one ID make one event",
	"twins in a batch":                   "append/an ID twice in one batch is appended once",
	"one ID for all streams":             "append/the same ID in two streams is two events",
	"expectation ignored":                "append/one writer wins each compare and append",
	"retry conflicts":                    "append/a retry of an expected append succeeds",
	"routed again":                       "append/routing as Erlang's phash2",
	"dots in keys":                       "json/every kind of value comes back",
	"floats":                             "json/numbers keep every digit",
	"small payloads":                     "json/the largest and the deepest payload come back",
	"numbers as text":                    "query/equality is typed",
	"ne needs the field":                 "query/equality is typed",
	"null is missing":                    "query/equality is typed",
	"empty in is all":                    "query/in and exists",
	"ge is gt":                           "query/ranges stay within a type",
	"numbers as floats":                  "query/numbers compare exactly",
	"paths by dots":                      "query/paths into the payload",
	"unescaped":                          "query/paths into the payload",
	"metadata by payload":                "query/metadata",
	"keys with quotes":                   "query/hostile values are plain data",
	"first condition only":               "query/conditions are combined",
	"from is exclusive":                  "query/time bounds",
	"to is inclusive":                    "query/time bounds",
	"after bound ignored":                "query/sequence bounds",
	"until is exclusive":                 "query/sequence bounds",
	"partitions ignored":                 "query/partitions",
	"always ascending":                   "query/order",
	"times as text":                      "query/order",
	"limit ignored":                      "query/random queries agree with a naive evaluation",
	"more says no":                       "query/limit",
	"cursor without ties":                "paging/pages, iterator and whole agree",
	"descending never ends":              "paging/descending pages end",
	"finished cursor is lost":            "paging/a finished cursor brings what came later",
	"a page skips one":                   "paging/read pages through a long partition",
	"groups share":                       "groups/groups are independent",
	"handed out twice":                   "groups/two consumers never share an event",
	"the beginning is the end":           "groups/start at the beginning",
	"a late start is the beginning":      "groups/start at a time after every event",
	"frontier starts at zero":            "groups/start after a sequence",
	"foreign partitions":                 "groups/limited to partitions",
	"fetch from anywhere":                "groups/fetch from some partitions",
	"group created again":                "groups/a group is created once",
	"groups unsorted":                    "groups/groups are listed by name",
	"lease without metadata":             "leases/a lease carries the event and its own data",
	"leases never expire":                "leases/an expired lease is delivered again",
	"one duration":                       "leases/each fetch has its own duration",
	"renewal does nothing":               "leases/renewal extends, again and again",
	"renewal adds":                       "leases/renewal extends, again and again",
	"renewal never shortens":             "leases/renewal counts from now, even if that is sooner",
	"expired is lost":                    "leases/an expired lease not taken again may be settled",
	"reason forgotten":                   "leases/a nack makes available at once and keeps its reason",
	"delay ignored":                      "leases/a nack's delay is kept",
	"release spends":                     "leases/a release spends no attempt",
	"release forgets the reason":         "leases/a release keeps the reason of the attempt before",
	"reject comes back":                  "leases/a reject is final",
	"nack never rejects":                 "leases/a nack of the last attempt rejects",
	"release at the end rejects":         "leases/a release of the last attempt does not reject",
	"one attempt more":                   "leases/attempts count by expiry alone",
	"expiry is free":                     "leases/attempts count by expiry alone",
	"ack is not fenced":                  "fencing/a lease taken again is refused whatever its holder does",
	"nack is not fenced":                 "fencing/a lease taken again is refused whatever its holder does",
	"reject is not fenced":               "fencing/a lease taken again is refused whatever its holder does",
	"release is not fenced":              "fencing/a lease taken again is refused whatever its holder does",
	"renew is not fenced":                "fencing/a late renewal and a fetch never both win",
	"settled stays leased":               "fencing/a settled lease is refused whatever comes next",
	"fenced by attempt":                  "fencing/a released lease is refused",
	"receipts ignored":                   "fencing/a wrong receipt is refused",
	"results by sequence":                "settle/results come in the order of the items",
	"a lost lease ends the batch":        "settle/a stale item changes nothing, nor what is around it",
	"first partition only":               "settle/a batch over several partitions",
	"at most a hundred":                  "settle/a batch of a thousand",
	"ack takes its neighbour":            "settle/a batch with every outcome",
	"reasons cut at 10":                  "settle/reasons are kept, and cut at their limit",
	"holes do not count":                 "frontier/a hole holds the frontier",
	"dead letters hold the frontier":     "frontier/a reject moves the frontier",
	"expired is in flight":               "frontier/in flight, waiting and dead letters are counted",
	"cursor is the frontier":             "frontier/the cursor is the highest sequence offered",
	"no age":                             "frontier/the age of the oldest unacked event",
	"ordering ignored":                   "ordering/one batch of a partition in flight",
	"several batches in flight":          "ordering/a batch half renewed holds its partition",
	"a delay holds nothing":              "ordering/a delayed event holds its partition",
	"first partition first":              "fairness/a backlog does not starve its neighbour",
	"new events first":                   "fairness/redeliveries come before new events, lowest first",
	"highest first":                      "fairness/redeliveries come before new events, lowest first",
	"fetch too much":                     "fairness/a fetch is never larger than asked for",
	"replay moves the cursor":            "replay/from a sequence never offered opens nothing",
	"replay acks what is below":          "replay/from a sequence above the frontier skips nothing",
	"replay fences everything":           "replay/leases in the range are fenced, others are not",
	"replay keeps leases":                "replay/leases in the range are fenced, others are not",
	"replay keeps attempts":              "replay/attempts start again",
	"replay keeps delays":                "replay/what waits for its delay is opened at once",
	"replay keeps dead letters":          "replay/dead letters in the range are gone",
	"replays by time":                    "replay/from a time",
	"replays every group":                "replay/no other group is touched",
	"replays everything":                 "replay/limited to partitions",
	"reset to zero":                      "reset/to where the group was created to start",
	"reset resolves again":               "reset/to where the group was created to start",
	"reset ignores its start":            "reset/to another start",
	"reset keeps leases":                 "reset/fences every lease",
	"reset keeps dead letters":           "reset/forgets attempts, delays and dead letters",
	"dead letters without event":         "deadletters/a dead letter carries its event",
	"dead letters without reason":        "deadletters/a dead letter carries its event",
	"dead since the event":               "deadletters/a dead letter carries its event",
	"a hundred dead letters":             "deadletters/pages have no cap",
	"dead letters by time":               "deadletters/pages go by partition and sequence",
	"an ack of the last attempt rejects": "deadletters/an event acked after a nack is none",
	"one partition's cursor for all":     "paging/pages, iterator and whole agree",
	"reads its own writes alone":         "sharing/what one process writes the other reads",
	"closed works":                       "context/a closed backend refuses every call",
	"no hints":                           "hints/an append is hinted at",
	"only appends are hinted at":         "hints/what becomes available again is hinted at",
	"one watcher":                        "hints/every watcher gets its hint",
	"watch never stops":                  "hints/a stopped watch gets no more",
	"ids forgotten":                      "durability/IDs and expectations survive",
	"configuration forgotten":            "durability/groups and their configuration survive",
	"holes forgotten":                    "durability/frontier and holes survive",
	"attempts forgotten":                 "durability/attempts, reasons and delays survive",
	"delays forgotten":                   "durability/attempts, reasons and delays survive",
	"dead letters forgotten":             "durability/dead letters survive",
	"leases lost for good":               "durability/a lease is good, or its event is delivered again",
	"start forgotten":                    "durability/a reset comes to the original start",
}

// The suite is worth what it finds: each planted bug must make its case fail. A
// case fails in a process of its own.
func TestPlantedBugs(t *testing.T) {
	t.Parallel()
	if os.Getenv(plantedVariable) != "" {
		t.Skip("this is such a process")
	}
	names := backendtest.Cases()
	for bug, name := range planted {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(names, name) {
				t.Fatalf("there is no case %q", name)
			}
			if output, err := runWith(t, bug, name); err == nil {
				t.Fatalf("with the bug %q the case %q passes:\n%s", bug, name, output)
			} else if !strings.Contains(output, "--- FAIL: TestNaive/") {
				t.Fatalf("the case %q did not fail, its process did: %v\n%s", name, err, output)
			}
		})
	}
}

// runWith runs one case on a backend with the bug.
func runWith(t *testing.T, bug, name string) (output string, err error) {
	t.Helper()
	var pattern []string
	for part := range strings.SplitSeq("TestNaive/"+name, "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(strings.ReplaceAll(part, " ", "_"))+"$")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "-test.run="+strings.Join(pattern, "/"), "-test.timeout=60s")
	c.Env = append(os.Environ(), plantedVariable+"="+bug)
	raw, err := c.CombinedOutput()
	return string(raw), err
}
