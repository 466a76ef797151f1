// Command agents runs agents whose tools are executables.
//
// See the README for a tour and `agents --help` for the commands. Nothing can
// import this package: it wires the others together, and only here are hints
// and exit codes decided.
package main

import "os"

func main() { os.Exit(systemProgram().start(os.Args)) }
