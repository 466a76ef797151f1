// Agents-fleet runs agents on Temporal: the same agent files on many machines.
package main

import "os"

func main() { os.Exit(2) }
