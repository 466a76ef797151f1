package process

// Exec replaces this process by the program at path, with the arguments behind its
// name and the environment. It returns only if that fails: with a *StartError.
// What BecomeSubreaper did does not reach the program. On Windows the program is a child, for
// which this process waits.
func Exec(path string, args, env []string) error {
	return newStartError(&Command{Path: path, Args: args, Env: env}, become(path, append([]string{path}, args...), env))
}
