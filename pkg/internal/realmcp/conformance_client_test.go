//go:build unix

package realmcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The conformance suite starts a server for each scenario and runs a command as its
// client: this test binary, which runs an agent that uses the server. The last
// argument is the server's URL; these variables are set.
const (
	scenarioVariable = "MCP_CONFORMANCE_SCENARIO"
	contextVariable  = "MCP_CONFORMANCE_CONTEXT" // JSON
)

// conformanceClient runs the agent of a scenario and returns its exit code.
func conformanceClient() int {
	code, err := runScenario(os.Getenv(scenarioVariable), os.Args[len(os.Args)-1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func runScenario(scenario, url string) (code int, err error) {
	k, err := findInstallation()
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "scenario")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	p := &testAgent{installation: k, dir: dir, home: dir, servers: []object{overHTTP("s", url)}}
	if strings.HasPrefix(scenario, "auth/") {
		return p.runSignIn()
	}
	list, err := p.scenarioCalls(scenario)
	if err != nil {
		return 0, err
	}
	if len(list) > 0 {
		p.rules = []object{calls(list...)}
	}
	file, err := p.write()
	if err != nil {
		return 0, err
	}
	cmd := p.agentsCommand("run", "--agent-file", file, "--prompt", "go", "--output", "jsonl")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if strings.HasPrefix(scenario, "elicitation-") {
		user := acceptAll()
		if err := user.attach(cmd); err != nil {
			return 0, err
		}
		defer func() { fmt.Fprint(os.Stderr, user.detach()) }()
	}
	code, err = exitCode(cmd.Run())
	if err == nil && scenario == "http-standard-headers" {
		code, err = exitCode(p.agentsCommand("run", "--agent-file", file, "--mcp-prompt", "s/test_prompt", "--prompt", "go").Run())
	}
	return code, err
}

// exitCode returns the exit code of a command that returned err.
func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// acceptAll returns a person who accepts the suggested answer of every question.
func acceptAll() *person {
	return &person{answers: map[string]string{
		"[y]es, [n]o, [s]ession, [c]all, [f]older or [h]elp? ": "yes", "answer, decline or cancel? ": "answer", "send, edit, decline or cancel? ": "send", "\n> ": "",
	}}
}

func (p *testAgent) agentsCommand(args ...string) *exec.Cmd {
	cmd := exec.Command(p.agents, args...)
	cmd.Dir, cmd.Env = p.dir, p.environ(p.home)
	return cmd
}

// scenarioCalls returns the calls that the agent of a scenario makes. An agent without
// calls only lists the tools.
func (p *testAgent) scenarioCalls(scenario string) ([]call, error) {
	switch scenario {
	case "tools_call":
		return []call{{Tool: "mcp_s_add_numbers", Args: object{"a": 5, "b": 3}}}, nil
	case "sse-retry":
		return []call{{Tool: "mcp_s_test_reconnection"}}, nil
	case "elicitation-sep1034-client-defaults":
		return []call{{Tool: "mcp_s_test_client_elicitation_defaults"}}, nil
	case "http-standard-headers":
		return []call{
			{Tool: "mcp_s_test_headers"}, {Tool: "mcp_s_my-hyphenated-tool"}, {Tool: "mcp_s_list_resources"},
			{Tool: "mcp_s_read_resource", Args: object{"uri": "file:///path/to/file%20name.txt"}},
		}, nil
	case "http-invalid-tool-headers":
		list := []call{{Tool: "mcp_s_valid_tool", Args: object{"region": "north"}}}
		// These tools must not exist, so that calls of them do not reach the server.
		for _, name := range []string{"empty_header", "object_header", "number_header", "duplicate_diff_case", "space_in_name", "control_char_name"} {
			list = append(list, call{Tool: "mcp_s_invalid_" + name, Args: object{"value": "x"}})
		}
		return list, nil
	case "http-custom-headers":
		return contextCalls()
	case "sep-2322-client-request-state":
		var list []call
		for _, name := range []string{"echo_state", "no_state", "state_only", "unrelated", "no_result_type"} {
			list = append(list, call{Tool: "mcp_s_test_mrtr_" + name})
		}
		return list, nil
	case "json-schema-2020-12-preservation":
		schema, err := p.seenSchema("mcp_s_json_schema_2020_12_tool")
		return []call{{Tool: "mcp_s_json_schema_echo", Args: object{"schema": schema}}}, err
	default:
		return nil, nil
	}
}

// contextCalls returns the calls that the suite requires.
func contextCalls() ([]call, error) {
	var wanted struct {
		ToolCalls []struct {
			Name      string
			Arguments object
		}
	}
	if err := json.Unmarshal([]byte(os.Getenv(contextVariable)), &wanted); err != nil {
		return nil, fmt.Errorf("%s: %w", contextVariable, err)
	}
	var list []call
	for _, c := range wanted.ToolCalls {
		list = append(list, call{Tool: "mcp_s_" + c.Name, Args: c.Arguments})
	}
	return list, nil
}

// seenSchema returns the schema of a tool as the agent's model gets it.
func (p *testAgent) seenSchema(tool string) (json.RawMessage, error) {
	file, err := p.write()
	if err != nil {
		return nil, err
	}
	cmd := p.agentsCommand("check", "--agent-file", file, "--tools", "json")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
	}
	var tools []struct {
		Name   string
		Schema json.RawMessage
	}
	if err := json.Unmarshal(out, &tools); err != nil {
		return nil, err
	}
	for _, t := range tools {
		if t.Name == tool {
			return t.Schema, nil
		}
	}
	return nil, fmt.Errorf("there is no tool %s", tool)
}
