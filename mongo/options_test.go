package mongo

import (
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rheo-go/rheo"
)

func TestNew(t *testing.T) {
	t.Parallel()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := client.Disconnect(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	database := client.Database("d")
	for _, prefix := range []string{"", "rheo_", "a", "A-b_c.9", strings.Repeat("x", 64)} {
		if _, err := New(database, &Options{Prefix: prefix}); err != nil {
			t.Errorf("the prefix %q: %v", prefix, err)
		}
	}
	for _, prefix := range []string{"$", "a$b", "a b", "é", "system.", ".a", "a..b", "a\x00", strings.Repeat("x", 65)} {
		if _, err := New(database, &Options{Prefix: prefix}); !errors.Is(err, rheo.ErrInvalid) || !strings.Contains(err.Error(), "Options.Prefix") {
			t.Errorf("the prefix %q: %v", prefix, err)
		}
		if _, err := Indexes(&Options{Prefix: prefix}); !errors.Is(err, rheo.ErrInvalid) {
			t.Errorf("the indexes of prefix %q: %v", prefix, err)
		}
	}
	if _, err := New(nil, nil); !errors.Is(err, rheo.ErrInvalid) {
		t.Errorf("no database: %v", err)
	}
}
