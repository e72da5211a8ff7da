package postgres

import (
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/rheo-go/rheo"
)

//go:embed sql
var files embed.FS

// A statement is the text of a file under sql, before the names of the tables
// are filled in.
type statement string

func load(name string) statement {
	text, err := files.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // a file is missing from the build
	}
	return statement(strings.TrimSpace(string(text)))
}

// names is the prefix of everything that is ours in the database. In a
// statement, {x} stands for the table or function x, and {=x} for the bare name
// of an index.
type names struct {
	schema string // empty: the first of the connection's search_path
	prefix string
}

const maxPrefixBytes = 40 // leaves room for our names within PostgreSQL's 63 bytes

// parsePrefix takes "rheo_" or "schema.rheo_" apart.
func parsePrefix(prefix string) (names, error) {
	n := names{prefix: prefix}
	if at := strings.LastIndexByte(prefix, '.'); at >= 0 {
		n.schema, n.prefix = prefix[:at], prefix[at+1:]
		if n.schema == "" {
			return n, rheo.Errorf(rheo.ErrInvalid, "Options.Prefix %q has an empty schema before its dot", prefix)
		}
	}
	if len(n.prefix) > maxPrefixBytes || len(n.schema) > maxPrefixBytes || strings.ContainsRune(prefix, 0) {
		return n, rheo.Errorf(rheo.ErrInvalid, "Options.Prefix %q is too long: schema and prefix may have %d bytes each", prefix, maxPrefixBytes)
	}
	return n, nil
}

var placeholder = regexp.MustCompile(`\{(=?)([a-z_]+)\}`)

// fill puts the names into a statement.
func (n names) fill(s statement) string {
	return placeholder.ReplaceAllStringFunc(string(s), func(match string) string {
		if bare, ok := strings.CutPrefix(match[1:len(match)-1], "="); ok {
			return pgx.Identifier{n.prefix + bare}.Sanitize()
		}
		return n.quoted(match[1 : len(match)-1])
	})
}

func (n names) quoted(name string) string {
	if n.schema == "" {
		return pgx.Identifier{n.prefix + name}.Sanitize()
	}
	return pgx.Identifier{n.schema, n.prefix + name}.Sanitize()
}

// channel is the name that LISTEN and NOTIFY use. Unlike a table it belongs to
// no schema.
func (n names) channel() string {
	name := n.schema + "." + n.prefix + "wake"
	const most = 63
	if len(name) > most {
		sum := sha256.Sum256([]byte(name))
		return "rheo_wake_" + hex.EncodeToString(sum[:8])
	}
	return strings.TrimPrefix(name, ".")
}

// lockKey is the advisory lock under which the schema is changed.
func (n names) lockKey() int64 {
	sum := sha256.Sum256([]byte("rheo schema " + n.schema + "." + n.prefix))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
