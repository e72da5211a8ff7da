package mongo

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rheo-go/rheo"
)

// schemaVersion goes up when documents or indexes change in a way that an older
// version of the library cannot work with.
const schemaVersion = 1

// placeIndex is the index that the log rests on: one commit document for a place.
const placeIndex = "place"

// termsIndex is the index on payloads. Where it is there, appends fill it.
const termsIndex = "terms"

// schemaState is what this process has seen of the schema.
type schemaState struct {
	sound atomic.Bool // the log's unique index is there
	terms atomic.Bool // so is the index on payloads
}

// Index is an index of the schema, for a host that makes it with a tool of its own.
type Index struct {
	Collection string // its name, with the prefix
	Name       string
	Keys       bson.D
	Unique     bool
}

// Indexes returns the indexes that EnsureSchema makes. Only Prefix and
// PayloadIndex of the options count. All begin with stream and partition, as does
// the shard key that docs/guides/mongo.md recommends.
func Indexes(opts *Options) ([]Index, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	return indexes(o), nil
}

func indexes(o Options) []Index {
	on := func(collection, name string, fields ...string) Index {
		i := Index{Collection: o.Prefix + collection, Name: name}
		for _, f := range fields {
			i.Keys = append(i.Keys, bson.E{Key: f, Value: int32(1)})
		}
		return i
	}
	place := on("log", placeIndex, "stream", "partition", "first")
	place.Unique = true
	all := []Index{
		place,
		on("log", "end", "stream", "partition", "last", "first"),
		on("log", "ids", "stream", "partition", "ids"),
		on("log", "types", "stream", "partition", "events.type", "first"),
		on("log", "keys", "stream", "partition", "events.key", "first"),
		on("log", "newest", "stream", "partition", "newest", "oldest", "first"),
		on("log", "oldest", "stream", "partition", "oldest"),
		on("groups", "stream", "stream"),
	}
	if o.PayloadIndex {
		all = append(all, on("log", termsIndex, "stream", "partition", "terms", "first"))
	}
	return all
}

// EnsureSchema implements [rheo.Backend]. It makes the indexes that are missing, one
// after the other, and then looks whether the one that the log rests on is as it
// must be.
func (b *Backend) EnsureSchema(ctx context.Context) error {
	ctx, err := b.enter(ctx)
	if err != nil {
		return err
	}
	if b.clock.override == nil {
		if _, err := b.hello(ctx); err != nil {
			return err
		}
	}
	if err := b.checkVersion(ctx); err != nil {
		return err
	}
	if err := b.makeIndexes(ctx); err != nil {
		return err
	}
	b.schema.sound.Store(false)
	if err := b.checkPlaceIndex(ctx); err != nil {
		return err
	}
	_, err = b.collections.schema.InsertOne(ctx, bson.D{{Key: "_id", Value: "version"}, {Key: "version", Value: schemaVersion}})
	if mongo.IsDuplicateKeyError(err) {
		return nil
	}
	return b.failure(err, writing)
}

// CheckSchema returns [rheo.ErrFailed] unless EnsureSchema has prepared the database
// for this version of the library. It changes nothing.
func (b *Backend) CheckSchema(ctx context.Context) error {
	ctx, err := b.enter(ctx)
	if err != nil {
		return err
	}
	if err := b.checkVersion(ctx); err != nil {
		return err
	}
	return b.checkPlaceIndex(ctx)
}

func (b *Backend) checkVersion(ctx context.Context) error {
	var found struct {
		Version int `bson:"version"`
	}
	err := b.collections.schema.FindOne(ctx, bson.D{{Key: "_id", Value: "version"}}).Decode(&found)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return nil
	case err != nil:
		return b.failure(err, reading)
	case found.Version > schemaVersion:
		return rheo.Errorf(rheo.ErrFailed, "the collections (prefix %q) are at version %d, newer than this library, which knows %d; update the library",
			b.options.Prefix, found.Version, schemaVersion)
	}
	return nil
}

func (b *Backend) makeIndexes(ctx context.Context) error {
	there := make(map[string][]mongo.IndexSpecification)
	for _, i := range indexes(b.options) {
		known, listed := there[i.Collection]
		if !listed {
			var err error
			if known, err = b.list(ctx, i.Collection); err != nil {
				return err
			}
			there[i.Collection] = known
		}
		if slices.ContainsFunc(known, i.is) {
			continue
		}
		if err := b.makeIndex(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// makeIndex waits for others who are making the same.
func (b *Backend) makeIndex(ctx context.Context, i Index) error {
	o := options.Index().SetName(i.Name)
	if i.Unique {
		o.SetUnique(true)
	}
	var p patience
	for {
		_, err := b.collections.named(strings.TrimPrefix(i.Collection, b.options.Prefix)).Indexes().CreateOne(ctx, mongo.IndexModel{Keys: i.Keys, Options: o})
		if err == nil {
			return nil
		}
		err = b.indexFailure(i, err)
		if reason := rheo.Classify(err); reason != rheo.ReasonUnavailable && reason != rheo.ReasonAmbiguous || p.tries == mostLost {
			return err
		}
		if err := p.wait(ctx); err != nil {
			return err
		}
	}
}

func (b *Backend) indexFailure(i Index, err error) error {
	var server mongo.ServerError
	if !errors.As(err, &server) {
		return b.failure(err, writing)
	}
	switch {
	case server.HasErrorCode(codeDuplicateKey):
		return rheo.WrapError(rheo.ErrFailed, err,
			"the log in %q holds two commit documents for the same place, written while its unique index was missing; docs/guides/mongo.md says how to find them", i.Collection)
	case server.HasErrorCode(codeIndexOptionsConflict), server.HasErrorCode(codeIndexKeysConflict):
		return rheo.WrapError(rheo.ErrFailed, err,
			"%q has an index under the name %q, or on its fields, that is another; drop it and call EnsureSchema again", i.Collection, i.Name)
	}
	return b.failure(err, writing)
}

// list returns the collection's indexes, none if it is not there.
func (b *Backend) list(ctx context.Context, collection string) ([]mongo.IndexSpecification, error) {
	found, err := b.collections.named(strings.TrimPrefix(collection, b.options.Prefix)).Indexes().ListSpecifications(withoutSession(ctx))
	var server mongo.ServerError
	if errors.As(err, &server) && server.HasErrorCode(codeNamespaceNotFound) {
		return nil, nil
	}
	return found, b.failure(err, reading)
}

// is reports whether it is there, under whichever name.
func (i *Index) is(s mongo.IndexSpecification) bool {
	keys, err := s.KeysDocument.Elements()
	return err == nil && i.Unique == (s.Unique != nil && *s.Unique) &&
		slices.EqualFunc(keys, i.Keys, func(there bson.RawElement, key bson.E) bool { return there.Key() == key.Key })
}

// checkPlaceIndex makes sure, once a process, that nothing is appended to a log
// without the unique index: it would not notice that another writer was first.
func (b *Backend) checkPlaceIndex(ctx context.Context) error {
	if b.schema.sound.Load() {
		return nil
	}
	place := indexes(b.options)[0]
	there, err := b.list(ctx, place.Collection)
	if err != nil {
		return err
	}
	named := func(name string) bool {
		return slices.ContainsFunc(there, func(s mongo.IndexSpecification) bool { return s.Name == name })
	}
	if slices.ContainsFunc(there, place.is) {
		b.schema.terms.Store(named(termsIndex))
		b.schema.sound.Store(true)
		return nil
	}
	if named(place.Name) {
		return rheo.Errorf(rheo.ErrFailed, "the index %q of collection %q is not the unique one on stream, partition and first that the log rests on; drop it and call EnsureSchema",
			place.Name, place.Collection)
	}
	return rheo.Errorf(rheo.ErrFailed, "the collection %q lacks the unique index on stream, partition and first that the log rests on; call EnsureSchema, or run rheo migrate",
		place.Collection)
}
