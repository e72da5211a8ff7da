package sqlite

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

//go:embed queries/*.sql
var queryFiles embed.FS

// statements are the SQL texts of queries/, by the name that stands above each,
// with the tables named as the prefix wants it.
type statements map[string]string

// batchSizes are the numbers of rows for which there is an insert-events
// statement of its own, descending.
var batchSizes = []int{50, 10, 1}

var batchNames = map[int]string{50: "insert-events-50", 10: "insert-events-10", 1: "insert-events-1"}

func newStatements(n names) (statements, error) {
	files, err := fs.Glob(queryFiles, "queries/*.sql")
	if err != nil {
		return nil, err
	}
	s := make(statements)
	for _, file := range files {
		text, err := fs.ReadFile(queryFiles, file)
		if err != nil {
			return nil, err
		}
		for i, section := range strings.Split(string(text), "-- name: ") {
			name, body, _ := strings.Cut(section, "\n")
			if i == 0 {
				continue
			}
			s[name] = n.fill(strings.TrimSuffix(strings.TrimSpace(body), ";"))
		}
	}
	s.addBatches()
	return s, nil
}

// addBatches makes the insert of several rows from that of one.
func (s statements) addBatches() {
	one := s["insert-events"]
	at := strings.Index(one, "(?")
	end := at + strings.Index(one[at:], ")") + 1
	row := one[at:end]
	for _, n := range batchSizes {
		s[batchNames[n]] = one[:at] + strings.Repeat(row+", ", n-1) + one[at:]
	}
}

// names puts a prefix before the names of tables, views and indexes.
type names struct{ prefix string }

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

// fill replaces each {name} by the quoted name with its prefix.
func (n names) fill(sql string) string {
	return placeholder.ReplaceAllStringFunc(sql, func(found string) string {
		return `"` + strings.ReplaceAll(n.of(found[1:len(found)-1]), `"`, `""`) + `"`
	})
}

func (n names) of(name string) string { return n.prefix + name }

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migration is one step of the schema. Its SQL also records that it was applied.
type Migration struct {
	Version int
	Name    string
	SQL     string
}

// Migrations returns the steps from an empty database to the schema that this
// version of the library uses, for a host that applies them with a tool of its
// own; [Backend.EnsureSchema] applies the same. Only opts.Prefix counts.
func Migrations(opts *Options) ([]Migration, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	return migrations(names{o.Prefix})
}

func migrations(n names) ([]Migration, error) {
	files, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	list := make([]Migration, len(files))
	for i, file := range files {
		text, err := fs.ReadFile(migrationFiles, file)
		if err != nil {
			return nil, err
		}
		m := Migration{Version: i + 1, Name: strings.TrimSuffix(path.Base(file), ".sql"), SQL: n.fill(string(text))}
		if want := fmt.Sprintf("%04d_", m.Version); !strings.HasPrefix(m.Name, want) {
			return nil, fmt.Errorf("migration %s should begin with %s", file, want)
		}
		list[i] = m
	}
	return list, nil
}

// statements cuts the SQL where a line ends in a semicolon: not every driver
// takes several statements at once.
func (m Migration) statements() []string {
	var list []string
	for _, s := range strings.SplitAfter(m.SQL, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			list = append(list, s)
		}
	}
	return list
}
