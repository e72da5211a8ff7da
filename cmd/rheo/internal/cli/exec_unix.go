//go:build unix

package cli

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
)

// shell makes a command that runs the line in a process group of its own: a
// Ctrl-C at the terminal is for us alone, and killing it kills what it started.
func shell(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithUs(cmd.SysProcAttr)
	cmd.Cancel = func() error { return killGroup(cmd) }
	return cmd
}

func killGroup(cmd *exec.Cmd) error {
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
