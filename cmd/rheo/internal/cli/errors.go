package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/rheo-go/rheo"
	"github.com/spf13/cobra"
)

// usageError says that the command line is wrong.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// report prints the error, if there is one, and returns the exit code.
func (a *app) report(ctx context.Context, cmd *cobra.Command, err error) int {
	if err == nil {
		return exitDone
	}
	var usage *usageError
	if errors.As(err, &usage) || !a.began {
		fmt.Fprintf(a.stderr, "rheo: %s\nSee %s --help.\n", a.redact(err.Error()), cmd.CommandPath())
		return exitUsage
	}
	if errors.Is(context.Cause(ctx), errInterrupted) && errors.Is(err, context.Canceled) { // says less
		err = errInterrupted
	}
	fmt.Fprintf(a.stderr, "rheo: %s\n", a.redact(strings.TrimPrefix(err.Error(), "rheo: ")))
	if hint := a.hint(err); hint != "" {
		fmt.Fprintf(a.stderr, "%s\n", a.redact(hint))
	}
	return exitFailed
}

// hint says how to go on after an error that the library has reported.
func (a *app) hint(err error) string {
	name := func(at int, other string) string {
		if at < len(a.args) {
			return quote(a.args[at])
		}
		return other
	}
	stream, group := name(0, "STREAM"), name(1, "GROUP")
	switch {
	case errors.Is(err, rheo.ErrStreamNotFound):
		return "  " + a.example("stream create", stream, "--partitions 4") + "\nmakes it, and this shows those that exist:\n  " +
			a.example("stream list")
	case errors.Is(err, rheo.ErrGroupNotFound):
		return "  " + a.example("group create", stream, group) + "\nmakes it, and this shows those that exist:\n  " +
			a.example("group list", stream)
	case errors.Is(err, rheo.ErrAmbiguous):
		return "It may have happened or not. With IDs from --id, repeating an append is harmless."
	case strings.Contains(err.Error(), "rheo migrate"):
		return "  " + a.example("migrate") + "\nmakes or updates the schema."
	}
	return ""
}

// example writes a command that works on the store in use.
func (a *app) example(words ...string) string {
	command := "rheo "
	if a.storeFlag != "" {
		command += "--store " + quote(a.redact(a.storeFlag)) + " "
	}
	return command + strings.Join(words, " ")
}

var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// quote makes a word one of a shell's command line.
func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// redact takes passwords out of a text: those of the store, and of whatever else
// on the command line looks like a store's URL.
func (a *app) redact(text string) string {
	for _, url := range append([]string{a.storeURL()}, a.words...) {
		shown, secrets := hidden(url)
		text = strings.ReplaceAll(text, url, shown)
		for _, secret := range secrets {
			// One that is a word of the shown URL, too, such as postgres, gives nothing away.
			if !strings.Contains(shown, secret) {
				text = strings.ReplaceAll(text, secret, redacted)
			}
		}
	}
	return text
}

const redacted = "xxxxx"

// hidden is a store's URL without its passwords; and these, as they stand and
// decoded. What lies behind the user's name up to the last @ is one, whatever it
// is made of.
func hidden(store string) (shown string, secrets []string) {
	hide := func(secret string) string {
		if secret == "" {
			return ""
		}
		secrets = append(secrets, secret)
		if plain, err := url.QueryUnescape(secret); err == nil && plain != secret {
			secrets = append(secrets, plain)
		}
		if plain, err := url.PathUnescape(secret); err == nil && plain != secret {
			secrets = append(secrets, plain)
		}
		return redacted
	}
	scheme, rest, isURL := strings.Cut(store, "://")
	if !isURL {
		return store, nil
	}
	shown = scheme + "://"
	place, query, hasQuery := strings.Cut(rest, "?")
	if !strings.Contains(place, "@") && strings.Contains(query, "@") { // the ? may be the password's
		place, query, hasQuery = rest, "", false
	}
	if at := strings.LastIndexByte(place, '@'); at >= 0 {
		if user, password, ok := strings.Cut(place[:at], ":"); ok {
			place = user + ":" + hide(password) + place[at:]
		}
	}
	shown += place
	if hasQuery {
		pairs := strings.Split(query, "&")
		for i, pair := range pairs {
			if name, value, ok := strings.Cut(pair, "="); ok && strings.Contains(strings.ToLower(name), "password") {
				pairs[i] = name + "=" + hide(value)
			}
		}
		shown += "?" + strings.Join(pairs, "&")
	}
	return shown, secrets
}
