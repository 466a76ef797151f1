//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// hasFilter: the numbers of this processor's system calls are known here.
const hasFilter = true

// Offsets in struct seccomp_data, for little endian.
const (
	dataNumber = 0
	dataArch   = 4
	dataArg0   = 16
	dataArg1   = 24
	dataArg2   = 32
)

// newNamespaces are the flags of clone and unshare that make namespaces.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// refused are system calls that no sandboxed process may make: they look into other
// processes, change what is mounted, load code into the kernel, or reach files and sockets
// by ways that neither this filter nor Landlock sees.
var refused = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_SETNS,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP,
}

// sharedIPC are system calls that reach what other processes of the user share.
var sharedIPC = []uint32{unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK}

// filter restricts the calling thread to the system calls that it needs. AF_UNIX is
// refused, except for pairs: programs that listen on a path are outside the sandbox.
func (s sockets) filter() error {
	program, err := bpf.Assemble(s.program())
	if err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	code := make([]unix.SockFilter, len(program))
	for i, in := range program {
		code[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(code)
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}

// program is the filter: it looks at the architecture, the number, and for some calls at
// an argument.
func (s sockets) program() []bpf.Instruction {
	answer := func(errno uint32) bpf.Instruction {
		return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | errno}
	}
	const permitted = unix.SECCOMP_RET_ALLOW
	p := []bpf.Instruction{
		bpf.LoadAbsolute{Off: dataArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		answer(uint32(unix.EPERM)),
		bpf.LoadAbsolute{Off: dataNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: 1 << 30, SkipTrue: 1}, // x32 of x86-64
		answer(uint32(unix.EPERM)),
	}
	// on runs checks if the number is that of a call; they end it.
	on := func(number uint32, checks ...bpf.Instruction) {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: number, SkipFalse: uint8(len(checks))})
		p = append(p, checks...)
	}
	for _, number := range append(refusedHere, refused...) {
		on(number, answer(uint32(unix.EPERM)))
	}
	if !s.IPC {
		for _, number := range sharedIPC {
			on(number, answer(uint32(unix.EPERM)))
		}
	}
	on(unix.SYS_PRLIMIT64, // new limits for a process that is named by its number
		bpf.LoadAbsolute{Off: dataArg0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 5},
		bpf.LoadAbsolute{Off: dataArg2, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 2},
		bpf.LoadAbsolute{Off: dataArg2 + 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
		answer(uint32(unix.EPERM)),
		bpf.RetConstant{Val: permitted})
	on(unix.SYS_CLONE3, answer(uint32(unix.ENOSYS))) // its flags are in memory; C libraries then use clone
	for _, number := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
		on(number,
			bpf.LoadAbsolute{Off: dataArg0, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: newNamespaces, SkipFalse: 1},
			answer(uint32(unix.EPERM)),
			bpf.RetConstant{Val: permitted})
	}
	on(unix.SYS_IOCTL, // writing into the input of a terminal
		bpf.LoadAbsolute{Off: dataArg1, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSTI, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: tioclinux, SkipTrue: 1},
		answer(uint32(unix.EPERM)),
		bpf.RetConstant{Val: permitted})
	on(unix.SYS_SOCKET, s.socket(answer(uint32(unix.EPERM)), bpf.RetConstant{Val: permitted})...)
	on(unix.SYS_SOCKETPAIR,
		bpf.LoadAbsolute{Off: dataArg0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipTrue: 1},
		answer(uint32(unix.EPERM)),
		bpf.RetConstant{Val: permitted})
	return append(p, bpf.RetConstant{Val: permitted})
}

const tioclinux = 0x541c

// socket checks the arguments of socket.
func (s sockets) socket(no, yes bpf.Instruction) []bpf.Instruction {
	if !s.Internet {
		return []bpf.Instruction{no}
	}
	p := []bpf.Instruction{
		bpf.LoadAbsolute{Off: dataArg0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET, SkipTrue: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET6, SkipTrue: 3},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_NETLINK, SkipTrue: 1},
		no,
		yes,
	}
	// An internet socket skips to here, one instruction behind yes of netlink.
	if !s.Streams {
		return append(p, yes)
	}
	return append(p,
		bpf.LoadAbsolute{Off: dataArg1, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xf}, // without SOCK_CLOEXEC and SOCK_NONBLOCK
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_STREAM, SkipTrue: 1},
		no,
		yes)
}
