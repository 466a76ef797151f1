// Package agentsexe compares this project with what agents-exe recorded: its tests import
// the sessions of its repository and make their calls of builtin toolboxes again. They are
// skipped unless an environment variable names a copy of that repository:
//
//	AGENTS_EXE_REPOSITORY=/path/to/agents-exe.git go test -v ./pkg/internal/agentsexe
package agentsexe
