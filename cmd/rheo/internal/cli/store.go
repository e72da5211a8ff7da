package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rheo-go/rheo"

	"github.com/rheo-go/rheo/embedded"
	"github.com/rheo-go/rheo/memory"
)

const defaultStore = "embedded:./rheo-data"

// opener is how stores of one scheme are opened: one line each in the table.
type opener struct {
	open func(ctx context.Context, r request) (rheo.Backend, error)
	// schema is what `migrate --print` prints; nil where there is nothing.
	schema func(r request) (string, error)
	// makesItself says that the commands that make something also prepare the
	// store, so that no one needs to run migrate.
	makesItself bool
	// indexesPayload says that `migrate --index payload` is for these stores.
	indexesPayload bool
	code           string // how Go code opens it, for the demo
}

// request is what a store is opened for.
type request struct {
	url          string
	scheme       string
	location     string // what follows the scheme and its colon
	purpose      purpose
	payloadIndex bool // migrate is to make it
}

type purpose int

const (
	using     purpose = iota // the store must be there
	making                   // one that makes itself is made
	migrating                // it is made or updated, whatever it is
)

var openers = map[string]opener{
	"memory":     {open: openMemory, makesItself: true},
	"embedded":   {open: openEmbedded, makesItself: true, code: "backend, err := embedded.Open(dir, nil)"},
	"sqlite":     {open: openSQLite, schema: sqliteSchema, makesItself: true, code: "backend, err := sqlite.New(db, nil)"},
	"postgres":   postgresOpener,
	"postgresql": postgresOpener,

	"mongodb":     mongoOpener,
	"mongodb+srv": mongoOpener,

	"redis":          redisOpener,
	"rediss":         redisOpener,
	"redis+cluster":  redisOpener,
	"rediss+cluster": redisOpener,
}

func openMemory(context.Context, request) (rheo.Backend, error) { return memory.New(nil), nil }

// openPatience is how long to wait for a directory that another process has open:
// as long as a short command may take.
const openPatience = time.Second

func openEmbedded(_ context.Context, r request) (rheo.Backend, error) {
	if r.location == "" {
		return nil, usagef("--store embedded: needs a directory, as in %s", defaultStore)
	}
	if err := r.mustExist(r.location); err != nil {
		return nil, err
	}
	return embedded.Open(r.location, &embedded.Options{OpenTimeout: openPatience})
}

// mustExist refuses to use a store where there is no file or directory.
func (r request) mustExist(file string) error {
	if _, err := os.Stat(file); r.purpose == using && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no store in %s; `rheo stream create NAME` makes one, --store or RHEO_STORE names another", file)
	}
	return nil
}

// storeURL is the store that the command line or the environment names.
func (a *app) storeURL() string {
	for _, named := range []string{a.storeFlag, os.Getenv("RHEO_STORE")} {
		if named != "" {
			return named
		}
	}
	return defaultStore
}

// opener finds how to open the URL.
func (a *app) opener(url string, purpose purpose) (opener, request, error) {
	r := request{url: url, purpose: purpose}
	r.scheme, r.location, _ = strings.Cut(url, ":")
	if o, ok := a.openers[r.scheme]; ok {
		return o, r, nil
	}
	known := strings.Join(slices.Sorted(maps.Keys(a.openers)), ":, ") + ":"
	return opener{}, r, usagef("the store %q does not begin with one of %s", a.redact(url), known)
}

// open opens a store. The caller closes the instance.
func (a *app) open(ctx context.Context, url string, purpose purpose) (*rheo.Instance, error) {
	o, r, err := a.opener(url, purpose)
	if err != nil {
		return nil, err
	}
	return a.openWith(ctx, o, r)
}

func (a *app) openWith(ctx context.Context, o opener, r request) (*rheo.Instance, error) {
	backend, err := o.open(ctx, r)
	if err != nil {
		return nil, err
	}
	inst, err := rheo.New(backend, &rheo.Options{Logger: a.logger()})
	if err != nil {
		return nil, errors.Join(err, backend.Close())
	}
	if r.purpose == migrating || r.purpose == making && o.makesItself {
		if err := inst.EnsureSchema(ctx); err != nil {
			return nil, errors.Join(err, inst.Close())
		}
	}
	return inst, nil
}

// logger writes warnings to stderr, without passwords: a driver's error may quote
// what it was given.
func (a *app) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
			if kind := attr.Value.Kind(); kind == slog.KindString || kind == slog.KindAny && attr.Key != slog.LevelKey {
				attr.Value = slog.StringValue(a.redact(attr.Value.String()))
			}
			return attr
		},
	}))
}

// withStore runs f on the store, which must exist.
func (a *app) withStore(ctx context.Context, f func(*rheo.Instance) error) error {
	return a.withInstance(ctx, using, f)
}

func (a *app) withInstance(ctx context.Context, purpose purpose, f func(*rheo.Instance) error) (err error) {
	inst, err := a.open(ctx, a.storeURL(), purpose)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, inst.Close()) }()
	return f(inst)
}
