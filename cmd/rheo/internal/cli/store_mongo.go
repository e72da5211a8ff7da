package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	driver "go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/mongo"
)

var mongoOpener = opener{
	open: openMongo, schema: mongoSchema, indexesPayload: true, code: "backend, err := mongo.New(client.Database(name), nil)",
}

// Unless the URL says otherwise.
const (
	mongoDatabase = "rheo"
	mongoPatience = 10 * time.Second // for a server
)

// mongoStore is a backend with the client that it is on.
type mongoStore struct {
	*mongo.Backend
	client *driver.Client
}

func (s mongoStore) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), mongoPatience)
	defer cancel()
	return errors.Join(s.Backend.Close(), s.client.Disconnect(ctx))
}

func openMongo(ctx context.Context, r request) (rheo.Backend, error) {
	client, database, own, err := mongoConfig(r)
	if err != nil {
		return nil, err
	}
	connected, err := driver.Connect(client)
	if err != nil {
		return nil, usagef("%v", err)
	}
	backend, err := mongo.New(connected.Database(database), own)
	if err != nil {
		return nil, errors.Join(err, connected.Disconnect(ctx))
	}
	store := mongoStore{backend, connected}
	// A consumer waits for a server that is away for a while; one that was never
	// there is a mistake.
	if err := backend.Ping(ctx); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if r.purpose != migrating {
		if err := backend.CheckSchema(ctx); err != nil {
			return nil, errors.Join(err, store.Close())
		}
	}
	return store, nil
}

// mongoConfig reads the URL. Our own parameters are taken out of it, since the
// driver would not know them. It has forms that net/url refuses, such as several
// hosts.
func mongoConfig(r request) (client *options.ClientOptions, database string, own *mongo.Options, err error) {
	place, query, _ := strings.Cut(r.url, "?")
	rest, ok := strings.CutPrefix(place, r.scheme+"://")
	user, hosts := "", rest
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, hosts = rest[:at], rest[at+1:]
	}
	_, err = url.PathUnescape(user)
	if !ok || err != nil || strings.ContainsAny(user, "/#@") || strings.ContainsAny(query, "@#") || strings.Contains(hosts, "#") { // an error would quote pieces of a password
		return nil, "", nil, usagef("the store is not a valid URL; write mongodb://USER:PASSWORD@HOST:PORT/DATABASE, with %%XX for whatever is neither letter nor digit in the password")
	}
	own, query, err = mongoParameters(query)
	if err != nil {
		return nil, "", nil, err
	}
	own.PayloadIndex = r.payloadIndex
	_, database, named := strings.Cut(hosts, "/")
	if !named && query != "" {
		place += "/" // as the driver wants it before a question mark
	}
	client = options.Client().SetServerSelectionTimeout(mongoPatience).SetAppName("rheo").ApplyURI(place + "?" + query)
	if err := client.Validate(); err != nil {
		return nil, "", nil, usagef("%v", err)
	}
	if database == "" {
		return client, mongoDatabase, own, nil
	}
	if database, err = url.PathUnescape(database); err != nil {
		return nil, "", nil, usagef("the database in the store's URL is not well written: %v", err)
	}
	return client, database, own, nil
}

// mongoParameters takes our own parameters out of a URL's, and leaves the others as
// they stand.
func mongoParameters(query string) (*mongo.Options, string, error) {
	own := new(mongo.Options)
	var others []string
	for pair := range strings.SplitSeq(query, "&") {
		name, escaped, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "rheo_") {
			others = append(others, pair)
			continue
		}
		value, err := url.QueryUnescape(escaped)
		if err != nil {
			return nil, "", usagef("%s in the store's URL is not well written: %v", name, err)
		}
		switch {
		case name == prefixParameter:
			own.Prefix = value
		case name == "rheo_change_stream" && (value == "on" || value == "off"):
			own.WithoutChangeStream = value == "off"
		case name == "rheo_change_stream":
			return nil, "", usagef("rheo_change_stream is %q, must be on or off", value)
		default:
			return nil, "", usagef("the store's URL has the parameter %s; there are rheo_prefix and rheo_change_stream", name)
		}
	}
	return own, strings.Join(others, "&"), nil
}

// mongoSchema is a script for mongosh.
func mongoSchema(r request) (string, error) {
	_, _, own, err := mongoConfig(r)
	if err != nil {
		return "", err
	}
	indexes, err := mongo.Indexes(own)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, i := range indexes {
		keys := make([]string, len(i.Keys))
		for at, key := range i.Keys {
			keys[at] = fmt.Sprintf("%q: 1", key.Key)
		}
		fmt.Fprintf(&text, "db.getCollection(%q).createIndex({%s}, {name: %q, unique: %t});\n", i.Collection, strings.Join(keys, ", "), i.Name, i.Unique)
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}
