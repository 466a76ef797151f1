// Package serving runs the servers: in this program, or with the build tag core in
// agents-serve, which is this program without the tag. The servers and their libraries would
// add a tenth to the size of agents and a fifth to every start of it, also as a tool of itself.
package serving
