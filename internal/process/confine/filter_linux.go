package confine

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16 // 8 bytes each; the low half is first on amd64 and arm64
)

const (
	firstX32     = 0x40000000 // calls of x32, a second set of numbers on amd64
	protocolSMC  = 256
	protocolMPTP = 262 // MPTCP

	ioprioWhoUser = 3 // IOPRIO_WHO_USER
)

// auditArch is the kernel's name for this machine's system calls; 0: the filter is not made for it.
func auditArch() uint32 {
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64
	}
	return 0
}

// filterCalls refuses this thread, and what it executes, the calls that would get around Landlock's
// rules for TCP, those that limit other processes, and those that look into directories:
//
//   - sockets of MPTCP and SMC, which speak TCP to a server that has only that;
//   - MSG_FASTOPEN, which connects while it sends;
//   - io_uring, whose requests pass no filter;
//   - prlimit of another process: the worker could neither open a file nor compute any more;
//   - priorities, processors and policies of another process. A program names itself by 0;
//   - inotify and fanotify: they tell the names of files in directories that may not be listed;
//   - packet sockets, which read what others send;
//   - calls of other instruction sets, which have other numbers.
func filterCalls() error {
	const deny = unix.SECCOMP_RET_ERRNO
	load := func(offset uint32) unix.SockFilter { return stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset) }
	ret := func(value uint32) unix.SockFilter { return stmt(unix.BPF_RET|unix.BPF_K, value) }
	jump := func(how uint16, value uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | how, K: value, Jt: yes, Jf: no}
	}
	program := []unix.SockFilter{
		load(offsetArch),
		jump(unix.BPF_JEQ, auditArch(), 1, 0),
		ret(deny | uint32(unix.ENOSYS)),
		load(offsetNumber),
		jump(unix.BPF_JGE, firstX32, 0, 1),
		ret(deny | uint32(unix.ENOSYS)),
	}
	for _, f := range []struct {
		call     uint32
		argument uint32
		how      uint16 // the argument is compared in this way, and refused with yes
		value    uint32
		yes      bool
		err      unix.Errno
	}{
		{unix.SYS_IO_URING_SETUP, 0, unix.BPF_JGE, 0, true, unix.ENOSYS},
		{unix.SYS_SOCKET, 2, unix.BPF_JEQ, protocolMPTP, true, unix.EPROTONOSUPPORT},
		{unix.SYS_SOCKET, 2, unix.BPF_JEQ, protocolSMC, true, unix.EPROTONOSUPPORT},
		{unix.SYS_SOCKET, 0, unix.BPF_JEQ, unix.AF_SMC, true, unix.EAFNOSUPPORT},
		{unix.SYS_SENDTO, 3, unix.BPF_JSET, unix.MSG_FASTOPEN, true, unix.EOPNOTSUPP},
		{unix.SYS_SENDMSG, 2, unix.BPF_JSET, unix.MSG_FASTOPEN, true, unix.EOPNOTSUPP},
		{unix.SYS_SENDMMSG, 3, unix.BPF_JSET, unix.MSG_FASTOPEN, true, unix.EOPNOTSUPP},
		{unix.SYS_SOCKET, 0, unix.BPF_JEQ, unix.AF_PACKET, true, unix.EAFNOSUPPORT},
		{unix.SYS_PRLIMIT64, 0, unix.BPF_JEQ, 0, false, unix.EPERM},
		{unix.SYS_SCHED_SETSCHEDULER, 0, unix.BPF_JEQ, 0, false, unix.EPERM},
		{unix.SYS_SCHED_SETPARAM, 0, unix.BPF_JEQ, 0, false, unix.EPERM},
		{unix.SYS_SCHED_SETATTR, 0, unix.BPF_JEQ, 0, false, unix.EPERM},
		{unix.SYS_SCHED_SETAFFINITY, 0, unix.BPF_JEQ, 0, false, unix.EPERM},
		{unix.SYS_SETPRIORITY, 0, unix.BPF_JEQ, unix.PRIO_USER, true, unix.EPERM},
		{unix.SYS_SETPRIORITY, 1, unix.BPF_JEQ, 0, false, unix.EPERM},
		{unix.SYS_IOPRIO_SET, 0, unix.BPF_JEQ, ioprioWhoUser, true, unix.EPERM},
		{unix.SYS_IOPRIO_SET, 1, unix.BPF_JEQ, 0, false, unix.EPERM},
		// The calls that begin succeed: programs make them at their start, and few survive their failure.
		{unix.SYS_INOTIFY_ADD_WATCH, 0, unix.BPF_JGE, 0, true, unix.EACCES},
		{unix.SYS_FANOTIFY_MARK, 0, unix.BPF_JGE, 0, true, unix.EACCES},
	} {
		test := jump(f.how, f.value, 0, 1)
		if !f.yes {
			test = jump(f.how, f.value, 1, 0)
		}
		program = append(program,
			load(offsetNumber), jump(unix.BPF_JEQ, f.call, 0, 3),
			load(offsetArgs+8*f.argument), test, ret(deny|uint32(f.err)))
	}
	program = append(program, ret(unix.SECCOMP_RET_ALLOW))
	_, _, err := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&unix.SockFprog{
		Len: uint16(len(program)), Filter: &program[0],
	})))
	if err != 0 {
		return err
	}
	return nil
}

func stmt(code uint16, value uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: value} }
