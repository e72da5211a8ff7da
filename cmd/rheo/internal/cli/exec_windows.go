package cli

import (
	"context"
	"os/exec"
)

func shell(ctx context.Context, line string) *exec.Cmd {
	return exec.CommandContext(ctx, "cmd", "/C", line)
}

// killGroup kills the command alone: there are no process groups.
func killGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }
