// Package sandbox confines the processes of tools: what they may read and write, where
// they may connect to, and how much of the machine they may use.
//
//   - A [Config] says what is permitted; [New] makes a [Box] of several, which permits what
//     all of them do, and is a process.Sandbox.
//
//   - A [Ladder] knows which ways to confine a process this machine has, and keeps the
//     namespaces that calls share. On Linux it needs a program that calls [Helper].
//
//   - [Secrets] are the paths that "workspace" hides, and [Present] those that exist.
//
//   - A [Proxy] is the way out for a process that may reach some domains: it runs outside, and
//     [ProxyEnviron] points programs inside to it.
//
//     ladder := &sandbox.Ladder{Helper: []string{"/proc/self/exe", "--sandbox"}}
//     defer ladder.Close()
//     command.Sandbox = sandbox.New(sandbox.Place{Dir: dir, Home: home, Ladder: ladder}, sandbox.Config{Workspace: true})
package sandbox
