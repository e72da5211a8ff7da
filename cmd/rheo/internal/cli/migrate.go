package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

const migrateHelp = `Makes or updates what the store needs: tables, indexes, files. It may run any
number of times, in any number of processes. --print changes nothing and prints
the schema, for a migration tool of your own.

--index payload also makes the index that lets conditions of equality on payload
and metadata find events without walking the stream. It costs every append about
a third. PostgreSQL only.`

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
				return usagef("%s: stores have no index on payload; --index is for postgres", r.scheme)
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
	if err := inst.Close(); err != nil {
		return err
	}
	return a.say(map[string]any{"store": a.redact(r.url), "ready": true},
		"the store %s is ready (%v)", a.redact(r.url), time.Since(began).Round(time.Millisecond))
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
