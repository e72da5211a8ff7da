package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rheo-go/rheo"
)

const migrateHelp = `Makes or updates what the store needs: tables, indexes, files. It may run any
number of times, in any number of processes. --print changes nothing and prints
the schema, for a migration tool of your own.

--index payload also makes the index that lets conditions of equality on payload
and metadata find events without walking the stream. It costs every append; on
PostgreSQL about a third. PostgreSQL and MongoDB only.`

func (a *app) migrateCommand() *cobra.Command {
	var printOnly bool
	var index string
	cmd := a.command("migrate [--print] [--index payload]", "Prepare a store, or print its schema", cobra.NoArgs,
		func(ctx context.Context, _ []string) error {
			o, r, err := a.opener(a.storeURL(), migrating)
			if err != nil {
				return err
			}
			r.payloadIndex = index != ""
			switch {
			case r.payloadIndex && !o.indexesPayload:
				return usagef("%s: stores have no index on payload; --index is for postgres and mongodb", r.scheme)
			case printOnly:
				return a.printSchema(o, r)
			}
			return a.migrate(ctx, o, r)
		})
	cmd.Long = migrateHelp
	cmd.Flags().BoolVar(&printOnly, "print", false, "print the schema and change nothing")
	cmd.Flags().Var(choiceFlag{&index, []string{"payload"}}, "index", "also make this index")
	return cmd
}

func (a *app) migrate(ctx context.Context, o opener, r request) error {
	began := time.Now()
	inst, err := a.openWith(ctx, o, r)
	if err != nil {
		return err
	}
	if err := errors.Join(a.advise(ctx, inst), inst.Close()); err != nil {
		return err
	}
	return a.say(map[string]any{"store": a.redact(r.url), "ready": true},
		"the store %s is ready (%v)", a.redact(r.url), time.Since(began).Round(time.Millisecond))
}

// advise prints what does not fit in how the store's server is run, if the backend
// can tell.
func (a *app) advise(ctx context.Context, inst *rheo.Instance) error {
	adviser, ok := inst.Backend().(interface {
		Advise(context.Context) ([]string, error)
	})
	if !ok {
		return nil
	}
	advice, err := adviser.Advise(ctx)
	for _, sentence := range advice {
		fmt.Fprintf(a.stderr, "advice: %s\n", a.redact(sentence))
	}
	return err
}

func (a *app) printSchema(o opener, r request) (err error) {
	schema := ""
	if o.schema != nil {
		if schema, err = o.schema(r); err != nil {
			return err
		}
	}
	if a.json {
		return a.printJSON(map[string]string{"store": a.redact(r.url), "schema": schema})
	}
	if schema == "" {
		return a.say(nil, "-- %s: stores have no schema to migrate: they make what they need when they are opened", r.scheme)
	}
	return a.say(nil, "%s", schema)
}
