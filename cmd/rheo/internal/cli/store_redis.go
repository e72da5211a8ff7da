package cli

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/redis"
)

var redisOpener = opener{open: openRedis, makesItself: true, code: "backend, err := redis.New(client, nil)"}

// redisStore is a backend with the client that it is on.
type redisStore struct {
	*redis.Backend
	client driver.UniversalClient
}

func (s redisStore) Close() error { return errors.Join(s.Backend.Close(), s.client.Close()) }

// redisDials is how often the driver tries to connect for one call: what waits for a
// server tries again by itself.
const redisDials = 1

// silence is the driver's log, which would go to stderr beside the errors themselves.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// silenceDriver is done once: the driver reads its logger unguarded.
var silenceDriver = sync.OnceFunc(func() { driver.SetLogger(silence{}) })

func openRedis(ctx context.Context, r request) (rheo.Backend, error) {
	client, options, err := redisConfig(r)
	if err != nil {
		return nil, err
	}
	silenceDriver()
	backend, err := redis.New(client, options)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	store := redisStore{backend, client}
	// A consumer waits for a server that is away for a while; one that was never
	// there is a mistake.
	if err := backend.Ping(ctx); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// redisConfig reads the URL. Our own parameters are taken out of it, since the driver
// would not know them.
func redisConfig(r request) (driver.UniversalClient, *redis.Options, error) {
	address, cluster := strings.CutSuffix(r.scheme, "+cluster")
	place, hosts, wellFormed := splitHosts(r.location)
	u, err := url.Parse(address + ":" + place)
	if err != nil || !wellFormed || u.Fragment != "" || strings.Contains(u.RawQuery, "@") { // the error would quote pieces of a password
		return nil, nil, usagef("the store is not a valid URL; write %s://USER:PASSWORD@HOST:PORT, with %%XX for whatever is neither letter nor digit in the password", r.scheme)
	}
	query := u.Query()
	options, err := redisParameters(query)
	if err != nil {
		return nil, nil, err
	}
	if !cluster {
		u.RawQuery = query.Encode()
		o, err := driver.ParseURL(u.String())
		if err != nil || len(hosts) > 0 {
			return nil, nil, usagef("the store's URL: %v", errors.Join(err, several(hosts)))
		}
		o.DialerRetries = redisDials
		return driver.NewClient(o), options, nil
	}
	query["addr"] = append(query["addr"], hosts...)
	u.RawQuery = query.Encode()
	o, err := driver.ParseClusterURL(u.String())
	if err != nil {
		return nil, nil, usagef("the store's URL: %v", err)
	}
	o.DialerRetries = redisDials
	return driver.NewClusterClient(o), options, nil
}

func several(hosts []string) error {
	if len(hosts) == 0 {
		return nil
	}
	return errors.New("it names several servers, as redis+cluster:// may")
}

// splitHosts takes all hosts but the first, between commas, out of what follows the
// scheme, which it wants to be //USER:PASSWORD@HOSTS/MORE.
func splitHosts(location string) (place string, others []string, ok bool) {
	rest, ok := strings.CutPrefix(location, "//")
	user := ""
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, rest = rest[:at+1], rest[at+1:]
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	hosts := strings.Split(rest[:end], ",")
	return "//" + user + hosts[0] + rest[end:], hosts[1:], ok
}

// redisParameters takes our own out of the query.
func redisParameters(query url.Values) (*redis.Options, error) {
	options := &redis.Options{Prefix: query.Get(prefixParameter)}
	query.Del(prefixParameter)
	if window := query.Get("rheo_window"); window != "" {
		var err error
		if options.IdempotencyWindow, err = time.ParseDuration(window); err != nil {
			return nil, usagef("rheo_window is %q, must be a duration such as 24h", window)
		}
	}
	query.Del("rheo_window")
	for name := range query {
		if strings.HasPrefix(name, "rheo_") {
			return nil, usagef("the store's URL has the parameter %s; there are rheo_prefix and rheo_window", name)
		}
	}
	return options, nil
}
