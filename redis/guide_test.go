package redis_test

import (
	"os"
	"strings"
	"testing"
)

// guideRights are those that the guide gives the user.
func guideRights(t *testing.T) []string {
	t.Helper()
	guide, err := os.ReadFile("../docs/guides/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(guide)) {
		if rest, ok := strings.CutPrefix(line, "ACL SETUSER rheo on >secret ~rheo:* "); ok {
			return strings.Fields(rest)
		}
	}
	t.Fatal("the guide has no line ACL SETUSER")
	return nil
}

// infoField is a line of INFO's.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
