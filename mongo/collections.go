package mongo

import (
	"encoding/json"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// collections are ours, with what durability needs set on each.
type collections struct {
	named   func(suffix string) *mongo.Collection
	schema  *mongo.Collection // one document: the version
	streams *mongo.Collection
	groups  *mongo.Collection
	ledgers *mongo.Collection
	letters *mongo.Collection // pages of dead letters
	log     *mongo.Collection
}

func collectionsOf(database *mongo.Database, prefix string) collections {
	journaled := true
	own := options.Collection().
		SetWriteConcern(&writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: &journaled}).
		SetReadConcern(readconcern.Majority()).
		SetReadPreference(readpref.Primary()).
		SetBSONOptions(&options.BSONOptions{}).
		SetRegistry(bson.NewRegistry())
	named := func(suffix string) *mongo.Collection { return database.Collection(prefix+suffix, own) }
	return collections{
		named:   named,
		schema:  named("schema"),
		streams: named("streams"),
		groups:  named("groups"),
		ledgers: named("ledgers"),
		letters: named("dead_letters"),
		log:     named("log"),
	}
}

// key is an _id made of parts that keeps them apart, whatever is in them: a JSON
// array.
func key(parts ...any) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err) // they are names and numbers
	}
	return string(text)
}
