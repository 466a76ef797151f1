// Package process runs a program and makes sure that nothing of it survives.
//
// [Run] is one call: it feeds stdin, streams stdout and stderr, and returns when
// the program and all that it started have ended. [Start] is for a server that
// lives longer; its [Process] is closed by the one who started it.
package process
