// Package demo holds the real events that `rheo demo` tells its story with:
// a week of earthquakes, from the U.S. Geological Survey, in the public domain.
package demo

import (
	"bytes"
	"compress/gzip"
	_ "embed" // the feed
	"errors"
	"io"
)

//go:embed earthquakes.ndjson.gz
var feed []byte

// Feed returns the earthquakes as NDJSON, in time order.
func Feed() ([]byte, error) {
	unzip, err := gzip.NewReader(bytes.NewReader(feed))
	if err != nil {
		return nil, err
	}
	ndjson, err := io.ReadAll(unzip)
	return ndjson, errors.Join(err, unzip.Close())
}
