package cli

import "testing"

// TestMongoURL: a wrong URL is an error at once, whatever the command, and gives no
// password away. What works on a server is tested in internal/mongotest.
func TestMongoURL(t *testing.T) {
	t.Parallel()
	const patient = "&serverSelectionTimeoutMS=200"
	for store, want := range map[string]struct {
		code int
		says string
	}{
		"mongodb://u:s3cret@127.0.0.1:1/db?x=y" + patient:                      {exitFailed, "MongoDB cannot be reached"},
		"mongodb://u:s3cret@127.0.0.1:1,127.0.0.1:2/db?replicaSet=r" + patient: {exitFailed, "MongoDB cannot be reached"},
		"mongodb://u:s3cret%zz@h/db":                                           {exitUsage, "write mongodb://USER:PASSWORD@HOST:PORT/DATABASE"},
		"mongodb://u:s3cret/more@h/db":                                         {exitUsage, "not a valid URL"},
		"mongodb://u:s3cret#more@h/db":                                         {exitUsage, "not a valid URL"},
		"mongodb://u:s3cret?more@h/db":                                         {exitUsage, "not a valid URL"},
		"mongodb:u:s3cret@h/db":                                                {exitUsage, "not a valid URL"},
		"mongodb://u:s3cret@h:port/db":                                         {exitUsage, "port"},
		"mongodb://u:s3cret@h/db?w=majority&retryWrites=perhaps":               {exitUsage, "retryWrites"},
		"mongodb://u:s3cret@h/db?rheo_change_stream=perhaps":                   {exitUsage, "must be on or off"},
		"mongodb://u:s3cret@h/db?rheo_prefx=x":                                 {exitUsage, "rheo_prefx"},
		"mongodb://u:s3cret@h/db?rheo_prefix=%24x":                             {exitFailed, "Options.Prefix"},
	} {
		s := &shellOf{t: t, store: store}
		s.refused(want.code, want.says, "stream", "list")
	}
}

// TestMongoSchema: --print needs no server.
func TestMongoSchema(t *testing.T) {
	t.Parallel()
	s := &shellOf{t: t, store: "mongodb://u:s3cret@h/db?rheo_prefix=x_"}
	out := s.ok("migrate", "--print", "--index", "payload")
	contains(t, out, `db.getCollection("x_log").createIndex({"stream": 1, "partition": 1, "first": 1}, {name: "place", unique: true});`, `name: "terms"`)
}
