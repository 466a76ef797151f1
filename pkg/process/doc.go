// Package process runs a program and makes sure that nothing of it survives.
//
// [Run] is one call: it feeds stdin, streams stdout and stderr, and returns when
// the program and all that it started have ended. [Start] is for a server that
// lives longer; its [Process] is closed by the one who started it. A [Command]
// says what to run, an [Exit] how it ended, a [StartError] why it did not start.
//
//	var out bytes.Buffer
//	e, err := process.Run(ctx, &process.Command{
//		Path: "tools/grep.sh", Args: []string{"run", "needle"},
//		Env:  env, Mark: callID, Stdout: &out,
//	})
//
// # What a program gets
//
// A session of its own, which is a process group too and has no terminal, so that
// it can neither write to ours nor stop because it read from it; the given
// environment and no other; descriptors 0, 1 and 2 and no others. To that end
// each start marks all descriptors above 2 of this process close-on-exec, those
// included that it inherited. Stdout and stderr are pipes; stdin is a pipe or
// /dev/null.
//
// # How it ends
//
// A program that exits is not reaped at first: as long as it is a zombie, no other
// process can get its number, so the SIGKILL that then goes to its group cannot hit
// another one. Before that, what still has stdout or stderr open gets
// Command.PipeWait to end by itself, because the shell's >(tee log) writes its
// last lines after the shell has exited. What is in the pipes is always read to
// its end.
//
// What left the group (setsid, double fork, set -m) is found in one of two ways.
//
// In a main program that called [BecomeSubreaper], orphans of ours become our
// children. So after every command the list of children is compared with the
// commands that run, and the rest is killed and reaped until no new one appears:
// a child whose session or Command.Mark is that of a running command stays; one
// with another mark goes, be it of an ended call or of a nested agents process
// that died; one without a mark goes when no command runs. Only
// descendants are touched. What the embedding program starts by os/exec
// stays as long as it is in the program's own session, which no command and no
// descendant of one can be in; a pseudo-terminal's child, for example, is not.
//
// The mark is in the environment, where /proc shows it, and as a number in a soft
// resource limit that nothing else uses, RLIMIT_RTTIME: what clears its environment
// (env -i) and leaves its session still has it. To set it for the child alone,
// programs are started one at a time.
//
// A program can change both marks. Where a main program may create control groups (root, or a
// user in a delegated part of the hierarchy), each command has one: everything that it starts
// stays in the group and ends with it. One command after another uses a group, because creating
// and removing one takes 0.1 ms. With version 2, processes start in the group (clone3); with
// version 1, the thread that forks is in the group for that moment. The group's name identifies
// the process that created it: after a crash, the guardian or EndLeft ends all groups of
// processes that have died. A program in a group of its own sandbox or in a user namespace of a
// Sandbox is not in the group, nor is one of Confined.Thread with version 2, because a filter
// refuses clone3 there.
//
// Without BecomeSubreaper, as in a library, the group is killed, and if there is
// reason to look further, because a pipe is still open or the call was
// cancelled, /proc is searched for the mark. Then a process that left the group
// and closed stdout and stderr is not found. Other
// systems than Linux get the group alone. On Windows the group is a job object, which
// everything that the program starts is in, and which ends with this process.
//
// # When this process is killed
//
// A main program names its guardian with [UseGuardian]: a process, usually of the same
// executable, that calls [Guardian]. It is started when a command has been running
// for half a second, so that short ones cost nothing, in a session of its own. It
// waits for the end of its standard input, a pipe whose other end only this process
// has. Over the pipe it learns of every command: one line before its start, one with
// its process number, one when nothing of it is left. If the pipe ends before that,
// it ends the commands: what carries their marks or is in their sessions, and all
// descendants, until a search finds nothing. Where there is none yet, programs run
// until their pipes break, an outer process of this kind finds them as orphans with
// an unknown mark, or a later one with [EndLeft].
//
// Guardians, and what they start, have a code of their own in the limit. Sweeps wait for
// them: the guardian of a nested process that was killed is still at work.
//
// A container is no descendant of the client that starts it. [Command.EndContainer]
// gives it a label, and Command.End a command line that removes it. End runs when the
// context or a signal ended the program, here or in the guardian.
//
// Every wait is bounded. A process that cannot be killed (it belongs to another
// user, or hangs in the kernel) is an error that says so.
//
// # What was left out
//
// No Pdeathsig: it is sent when the thread ends that forked, so all programs
// would have to be started by one locked thread, one after the other; and it does
// not reach their children.
//
// # Cost
//
// Run of /bin/true takes about 20 µs more than os/exec with two pipes. Waiting
// for an exit takes no thread: it is the runtime's poller that waits, on a pidfd.
package process
