package mongo

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rheo-go/rheo"
)

func TestFailure(t *testing.T) {
	t.Parallel()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(t.Context()) }()
	b, err := New(client.Database("d"), nil)
	if err != nil {
		t.Fatal(err)
	}
	command := func(code int32, labels ...string) error { return mongo.CommandError{Code: code, Labels: labels} }
	write := func(code int) error { return mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: code}}} }
	unconfirmed := mongo.BulkWriteException{WriteConcernError: &mongo.WriteConcernError{Code: 64}}
	for _, tt := range []struct {
		name           string
		err            error
		reading, wrote error
	}{
		{"connection lost", command(0, "NetworkError"), rheo.ErrUnavailable, rheo.ErrAmbiguous},
		{"connection lost with the context", mongo.CommandError{Labels: []string{"NetworkError"}, Wrapped: context.Canceled}, rheo.ErrUnavailable, rheo.ErrAmbiguous},
		{"no server", errors.New("server selection error"), rheo.ErrUnavailable, rheo.ErrUnavailable},
		{"context ended before", fmt.Errorf("waiting for a connection: %w", context.DeadlineExceeded), rheo.ErrUnavailable, rheo.ErrUnavailable},
		{"disconnected client", mongo.ErrClientDisconnected, rheo.ErrUnavailable, rheo.ErrUnavailable},
		{"not primary", command(10107), rheo.ErrUnavailable, rheo.ErrUnavailable},
		{"nothing written", command(11602, "NoWritesPerformed"), rheo.ErrUnavailable, rheo.ErrUnavailable},
		{"interrupted", command(11602), rheo.ErrUnavailable, rheo.ErrAmbiguous},
		{"time limit", command(50), rheo.ErrUnavailable, rheo.ErrAmbiguous},
		{"no majority", unconfirmed, rheo.ErrAmbiguous, rheo.ErrAmbiguous},
		{"write conflict", write(112), rheo.ErrUnavailable, rheo.ErrUnavailable},
		{"not allowed", command(13), rheo.ErrFailed, rheo.ErrFailed},
		{"too large", write(10334), rheo.ErrInvalid, rheo.ErrInvalid},
		{"something else", command(2), rheo.ErrFailed, rheo.ErrFailed},
		{"one of ours", rheo.Errorf(rheo.ErrConflict, "x"), rheo.ErrConflict, rheo.ErrConflict},
	} {
		for i, want := range map[intent]error{reading: tt.reading, writing: tt.wrote} {
			got := b.failure(tt.err, i)
			if !errors.Is(got, want) || !errors.Is(got, tt.err) && rheo.Classify(tt.err) == rheo.ReasonAmbiguous && !errors.As(got, new(mongo.ServerError)) {
				t.Errorf("%s (intent %d): %v, want %v", tt.name, i, got, want)
			}
		}
	}
	if b.failure(nil, writing) != nil {
		t.Error("no error is none")
	}
}

func TestOnlyDuplicates(t *testing.T) {
	t.Parallel()
	bulk := func(codes ...int) error {
		var e mongo.BulkWriteException
		for _, c := range codes {
			e.WriteErrors = append(e.WriteErrors, mongo.BulkWriteError{WriteError: mongo.WriteError{Code: c}})
		}
		return e
	}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{bulk(11000), true},
		{bulk(11000, 11000), true},
		{bulk(11000, 112), false},
		{bulk(), false},
		{mongo.BulkWriteException{WriteConcernError: &mongo.WriteConcernError{}, WriteErrors: []mongo.BulkWriteError{{WriteError: mongo.WriteError{Code: 11000}}}}, false},
		{mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 11000}}}, true},
		{mongo.CommandError{Code: 11000}, true},
		{errors.New("another"), false},
	} {
		if got := onlyDuplicates(tt.err); got != tt.want {
			t.Errorf("%v: %t", tt.err, got)
		}
	}
}

// TestTransientReachesTheDriver: the label by which the driver repeats the host's
// transaction is found in what we return.
func TestTransientReachesTheDriver(t *testing.T) {
	t.Parallel()
	err := rheo.WrapError(rheo.ErrUnavailable, errors.Join(transient{}, mongo.CommandError{Code: 11000}), "x")
	var labelled mongo.LabeledError
	if !errors.As(err, &labelled) || !labelled.HasErrorLabel("TransientTransactionError") {
		t.Error("the label is lost")
	}
}
