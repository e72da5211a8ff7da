//go:build unix && !linux

package cli

import "syscall"

// dieWithUs does nothing where the kernel offers nothing.
func dieWithUs(*syscall.SysProcAttr) {}
