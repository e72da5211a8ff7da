package cli

import "syscall"

// dieWithUs has the kernel kill the command if we are killed.
func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
