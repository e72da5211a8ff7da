package rheowatermill

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/rheo-go/rheo"
)

// MetadataEncoding is the metadata key that marks a payload which is not JSON, or
// is to come back byte for byte: "text" as a JSON string, "base64" as one in
// base64. Messages do not show it.
const MetadataEncoding = "rheo_watermill_encoding"

const (
	encodingText   = "text"
	encodingBase64 = "base64"
)

// encodePayload returns the payload as JSON, and how it is encoded in it, if it
// is not JSON itself.
func encodePayload(payload []byte, exact bool) (encoded json.RawMessage, encoding string) {
	if !exact && rheo.ValidatePayload(payload) == nil {
		return payload, ""
	}
	text := string(payload)
	encoding = encodingText
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		text, encoding = base64.StdEncoding.EncodeToString(payload), encodingBase64
	}
	encoded, _ = json.Marshal(text) // a valid string always can be
	return encoded, encoding
}

// decodePayload undoes encodePayload.
func decodePayload(encoded json.RawMessage, encoding string) ([]byte, error) {
	if encoding == "" {
		return encoded, nil
	}
	var text string
	if err := json.Unmarshal(encoded, &text); err != nil {
		return nil, rheo.WrapError(rheo.ErrInvalid, err, "the payload should be a string, as its metadata %s says", MetadataEncoding)
	}
	switch encoding {
	case encodingText:
		return []byte(text), nil
	case encodingBase64:
		payload, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, rheo.WrapError(rheo.ErrInvalid, err, "the payload should be base64, as its metadata %s says", MetadataEncoding)
		}
		return payload, nil
	}
	return nil, rheo.Errorf(rheo.ErrInvalid, "the metadata %s is %q, which this version does not know", MetadataEncoding, encoding)
}
