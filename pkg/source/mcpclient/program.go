package mcpclient

import "github.com/agents-exe/agents/pkg/process"

// Programs are the files that the start of s executes, as far as its configuration
// names them; see process.Programs.
func (s *Server) Programs() []string {
	if s.Executable == "" {
		return nil
	}
	return append(process.Programs(append([]string{s.Executable}, s.Args...), s.Env, s.Dir), s.Files...)
}
