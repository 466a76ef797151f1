// Package sandbox confines the processes of tools: what they may read and write, where
// they may connect to, and how much of the machine they may use.
//
//   - [Secrets] are the paths that "workspace" hides, and [Present] those that exist.
//   - A [Proxy] is the way out for a process that may reach some domains: it runs outside, and
//     [ProxyEnviron] points programs inside to it.
package sandbox
