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
	// open gets the URL and what follows its "scheme:". Unless create is set it
	// must not make a store where there is none.
	open func(ctx context.Context, url, location string, create bool) (rheo.Backend, error)
	// schema is what `migrate --print` prints: SQL, or nothing.
	schema string
	// makesItself says that opening the store prepares it, so that no one needs
	// to run migrate.
	makesItself bool
}

var openers = map[string]opener{
	"memory":   {open: openMemory, makesItself: true},
	"embedded": {open: openEmbedded, makesItself: true},
}

// planned are the schemes that design and help name, but this version cannot open.
var planned = []string{
	"sqlite", "postgres", "postgresql", "mongodb", "mongodb+srv", "redis", "rediss", "redis+cluster",
}

func openMemory(context.Context, string, string, bool) (rheo.Backend, error) {
	return memory.New(nil), nil
}

// openPatience is how long to wait for a directory that another process has open:
// as long as a short command may take.
const openPatience = time.Second

func openEmbedded(_ context.Context, _, dir string, create bool) (rheo.Backend, error) {
	if dir == "" {
		return nil, usagef("--store embedded: needs a directory, as in %s", defaultStore)
	}
	if _, err := os.Stat(dir); !create && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no store in %s; `rheo stream create NAME` makes one, --store or RHEO_STORE names another", dir)
	}
	return embedded.Open(dir, &embedded.Options{OpenTimeout: openPatience})
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
func (a *app) opener(url string) (o opener, scheme, location string, err error) {
	scheme, location, _ = strings.Cut(url, ":")
	if o, ok := a.openers[scheme]; ok {
		return o, scheme, location, nil
	}
	known := strings.Join(slices.Sorted(maps.Keys(a.openers)), ":, ") + ":"
	if slices.Contains(planned, scheme) {
		return o, "", "", fmt.Errorf("%s: stores are not built into this version yet; it has %s", scheme, known)
	}
	return o, "", "", usagef("the store %q does not begin with one of %s", a.redact(url), known)
}

// open opens a store. The caller closes the instance.
func (a *app) open(ctx context.Context, url string, create bool) (*rheo.Instance, error) {
	o, _, location, err := a.opener(url)
	if err != nil {
		return nil, err
	}
	backend, err := o.open(ctx, url, location, create)
	if err != nil {
		return nil, err
	}
	logger := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	inst, err := rheo.New(backend, &rheo.Options{Logger: logger})
	if err != nil {
		return nil, errors.Join(err, backend.Close())
	}
	if o.makesItself {
		if err := inst.EnsureSchema(ctx); err != nil {
			return nil, errors.Join(err, inst.Close())
		}
	}
	return inst, nil
}

// withStore runs f on the store, which must exist.
func (a *app) withStore(ctx context.Context, f func(*rheo.Instance) error) error {
	return a.withInstance(ctx, false, f)
}

func (a *app) withInstance(ctx context.Context, create bool, f func(*rheo.Instance) error) (err error) {
	inst, err := a.open(ctx, a.storeURL(), create)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, inst.Close()) }()
	return f(inst)
}
