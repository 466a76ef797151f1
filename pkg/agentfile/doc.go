// Package agentfile loads trees of agent files: an agent.json, the executables
// and agent files in its tool directory, and what these name in turn. It is the only
// package that knows every toolset and every provider.
//
// Load returns a Tree. Its Root is ready to run, and its Nodes and Problems describe
// what was found:
//
//	tree, err := agentfile.Load(ctx, "agent.json", agentfile.Options{Keys: keys, Environ: os.Environ()})
//	if err != nil {
//		return err // a *LoadError: the root file or a key; tree.Problems has everything
//	}
//	defer tree.Close()
//	out, err := host.New(tree).Runner(tree.Root).Run(ctx, agent.UserText("hello"))
//
// Tools come from sources: executables, MCP servers, toolboxes, skills, agents elsewhere. Each kind
// is a file of this package and a line of kinds, through which it is read, compared with a lock,
// protected, confined, opened and closed.
//
// A broken part does not stop the agent: it is left out and reported. Load executes
// nothing but describe of each tool, and that only if the answer is not in the cache.
package agentfile
