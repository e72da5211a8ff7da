package mongotest_test

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/rheo-go/rheo"
	"github.com/rheo-go/rheo/mongo"
)

// careless is a client for which speed is all.
func careless(o *options.ClientOptions) {
	o.SetWriteConcern(writeconcern.Unacknowledged()).SetReadConcern(readconcern.Available()).
		SetReadPreference(readpref.SecondaryPreferred()).SetBSONOptions(&options.BSONOptions{
		OmitEmpty: true, NilSliceAsEmpty: true, UseJSONStructTags: true, IntMinSize: true,
	})
}

// TestConcerns: every command asks for what durability needs, whatever the host's
// client says.
func TestConcerns(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	s := openStore(t, p, connect(t, p, careless).Database(databaseName()), mongo.Options{})
	seen := make(map[string]int)
	p.watch(func(command string, body bson.Raw) {
		seen[command]++
		switch command {
		case "insert", "update", "delete", "findAndModify":
			w, _ := body.LookupErr("writeConcern", "w")
			j, _ := body.LookupErr("writeConcern", "j")
			if level, _ := w.StringValueOK(); level != "majority" {
				t.Errorf("%s asks for w: %v", command, w)
			}
			if journaled, _ := j.BooleanOK(); !journaled {
				t.Errorf("%s asks for j: %v", command, j)
			}
		case "find", "aggregate":
			r, _ := body.LookupErr("readConcern", "level")
			if level, _ := r.StringValueOK(); level != "majority" {
				t.Errorf("%s asks for level: %v", command, r)
			}
		}
	})
	finished(t, s, "s")
	reopened, err := s.Replay(t.Context(), "s", "g", rheo.ReplaySelection{FromSequence: 1})
	if err != nil || reopened != 4 {
		t.Errorf("%d were opened, %v", reopened, err)
	}
	leases := s.fetch(t, "s", time.Minute)
	if _, err := s.Renew(t.Context(), time.Minute, leases...); err != nil {
		t.Error(err)
	}
	if err := s.Ack(t.Context(), leases...); err != nil {
		t.Error(err)
	}
	expectLag(t, s, "s", 0)
	expectDead(t, s, "s")
	if _, err := s.Query(t.Context(), "s", rheo.Query{}); err != nil {
		t.Error(err)
	}
	for _, command := range []string{"insert", "update", "find"} {
		if seen[command] == 0 {
			t.Errorf("there was no %s", command)
		}
	}
}
