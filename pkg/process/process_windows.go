package process

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// A handle is what a program is waited for and ended with. Everything that the
// program starts is in its job object, which ends with this process at the latest.
type handle struct {
	process, job windows.Handle
}

// sysProcAttr asks for a process that runs only once it is in its job object, and
// for a group of its own, so that it can be asked to end.
func (h *handle) sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP}
}

// fork starts the program in a job object of its own and returns its number.
func (e *entry) fork(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	if path, argv, err = interpret(path, argv, attr); err != nil {
		return 0, err
	}
	root, err := windows.GetSystemWindowsDirectory()
	if err != nil {
		return 0, err
	}
	attr.Env = uniqueEnviron(attr.Env, root)
	if e.job, err = newJob(); err != nil {
		return 0, err
	}
	pid, process, err := syscall.StartProcess(path, argv, attr)
	e.process = windows.Handle(process)
	if err == nil {
		err = errors.Join(windows.AssignProcessToJobObject(e.job, e.process), resume(pid))
	}
	if err != nil {
		if e.process != 0 {
			windows.TerminateProcess(e.process, 1)
		}
		e.release()
		return 0, err
	}
	return pid, nil
}

// newJob creates a job object whose processes end when it is closed.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, os.NewSyscallError("CreateJobObject", err)
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		windows.CloseHandle(job)
		return 0, os.NewSyscallError("SetInformationJobObject", err)
	}
	return job, nil
}

// resume lets the threads of a process run that was started suspended.
func resume(pid int) error {
	list, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return os.NewSyscallError("CreateToolhelp32Snapshot", err)
	}
	defer windows.CloseHandle(list)
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(list, &entry); err == nil; err = windows.Thread32Next(list, &entry) {
		if int(entry.OwnerProcessID) != pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return os.NewSyscallError("OpenThread", err)
		}
		_, err = windows.ResumeThread(thread)
		windows.CloseHandle(thread)
		if err != nil {
			return os.NewSyscallError("ResumeThread", err)
		}
	}
	if !errors.Is(err, windows.ERROR_NO_MORE_FILES) {
		return os.NewSyscallError("Thread32Next", err)
	}
	return nil
}

// ask asks the program to end, which needs a console that it shares with this one.
func (e *entry) ask() { windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(e.pid)) }

// kill ends everything in the job object.
func (e *entry) kill() error {
	return os.NewSyscallError("TerminateJobObject", windows.TerminateJobObject(e.job, 1))
}

func (e *entry) hasMembers() bool { return len(e.members()) > 0 }

// members returns the processes in the job object, some of them if there are many.
func (e *entry) members() []int {
	const most = 1024
	var list struct {
		assigned, listed uint32
		pids             [most]uintptr
	}
	err := windows.QueryInformationJobObject(e.job, windows.JobObjectBasicProcessIdList, uintptr(unsafe.Pointer(&list)), uint32(unsafe.Sizeof(list)), nil)
	if err != nil && !errors.Is(err, windows.ERROR_MORE_DATA) {
		return nil
	}
	pids := make([]int, 0, list.listed)
	for _, pid := range list.pids[:min(list.listed, most)] {
		pids = append(pids, int(pid))
	}
	return pids
}

// isMember reports whether a process is in the job object.
func (e *entry) isMember(pid int) bool { return slices.Contains(e.members(), pid) }

func (e *entry) waitExit() error {
	_, err := windows.WaitForSingleObject(e.process, windows.INFINITE)
	return os.NewSyscallError("WaitForSingleObject", err)
}

func (e *entry) hasExited() bool {
	event, err := windows.WaitForSingleObject(e.process, 0)
	return err == nil && event == windows.WAIT_OBJECT_0
}

func (e *entry) waitStatus() (status syscall.WaitStatus, err error) {
	err = windows.GetExitCodeProcess(e.process, &status.ExitCode)
	return status, os.NewSyscallError("GetExitCodeProcess", err)
}

func (e *entry) release() {
	windows.CloseHandle(e.process)
	windows.CloseHandle(e.job)
}

// IsBrokenPipe reports whether a write failed because there is no reader.
func IsBrokenPipe(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA)
}
