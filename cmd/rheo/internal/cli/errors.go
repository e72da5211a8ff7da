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
	}
	return ""
}

// example writes a command that works on the store in use.
func (a *app) example(words ...string) string {
	command := "rheo "
	if a.storeFlag != "" {
		command += "--store " + quote(a.storeFlag) + " "
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

// redact takes the store's password out of a text.
func (a *app) redact(text string) string {
	for _, secret := range secrets(a.storeURL()) {
		text = strings.ReplaceAll(text, secret, "xxxxx")
	}
	return text
}

// secrets are the passwords in a store's URL, as they stand and decoded. What
// lies behind the user's name up to the last @ is one, whatever it is made of.
func secrets(store string) []string {
	var found []string
	add := func(secret string) {
		if secret == "" {
			return
		}
		found = append(found, secret)
		if plain, err := url.PathUnescape(secret); err == nil && plain != secret {
			found = append(found, plain)
		}
	}
	_, rest, isURL := strings.Cut(store, "://")
	if !isURL {
		return nil
	}
	rest, query, _ := strings.Cut(rest, "?")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		_, password, _ := strings.Cut(rest[:at], ":")
		add(password)
	}
	for pair := range strings.SplitSeq(query, "&") {
		if name, value, _ := strings.Cut(pair, "="); strings.Contains(strings.ToLower(name), "password") {
			add(value)
		}
	}
	return found
}
