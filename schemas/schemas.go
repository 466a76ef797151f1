// Package schemas holds the published JSON Schemas (draft 2020-12) of the files
// that a person writes: agent files, tool descriptions, keys files, cfg files, prices,
// lists of programs, the scripts of the offline model and tests, keys of the terminal interface, of lock files, of remote agents, and of agents of the Agent Client Protocol. Each accepts the key "$schema", so
// that an editor can complete and check such a file while it is written. Two more
// are for the lines of a session, and for what programs that take steps read and write.
//
//	doc, err := schemas.Read("agent.schema.json")
package schemas

import (
	"embed"
	"io/fs"
	"slices"
)

//go:embed *.json
var files embed.FS

// Names of the schemas of this folder.
const (
	AgentName           = "agent.schema.json"
	ToolDescriptionName = "tool-description.schema.json"
	KeysName            = "keys.schema.json"
	CfgName             = "cfg.schema.json"
	AgentTestName       = "agenttest.schema.json"
	SessionName         = "session.schema.json"
	PricesName          = "prices.schema.json"
	LockName            = "lock.schema.json"
	StepName            = "step.schema.json"
	ToolkitName         = "toolkit.schema.json"
	RemoteAgentName     = "remote-agent.schema.json"
	ACPAgentName        = "acp-agent.schema.json"
	TUIKeysName         = "tui-keys.schema.json"
)

// Read returns the schema with the file name, or an fs.ErrNotExist.
func Read(name string) ([]byte, error) { return files.ReadFile(name) }

// Names returns the file names of all schemas, sorted.
func Names() []string {
	names, _ := fs.Glob(files, "*.json") // the pattern is well-formed
	slices.Sort(names)
	return names
}

// Agent returns the schema of agent files.
func Agent() []byte { return own(AgentName) }

// Toolkit returns the schema of the lists of programs that agent files name.
func Toolkit() []byte { return own(ToolkitName) }

// AgentTest returns the schema of the test files of `agents test`.
func AgentTest() []byte { return own(AgentTestName) }

// own reads a schema that is embedded for certain.
func own(name string) []byte {
	doc, err := files.ReadFile(name)
	if err != nil {
		panic("schemas: " + err.Error())
	}
	return doc
}
