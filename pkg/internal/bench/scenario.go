//go:build unix

package main

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/agents-exe/agents/pkg/internal/bench/model"
)

type program struct {
	name string
	// args of the command line; what stands in braces is filled in, see bench.fill.
	args []string
	// forget removes the cache before each run.
	forget bool
	// dir is where it runs, below the folder of the bench; "" is an empty folder.
	dir string
}

// A scenario is something that several programs do in turn.
type scenario struct {
	name, title string
	script      model.Script
	expect      string // what the last tool result must hold
	rounds      int    // 0: as many as asked for
	programs    []program
	goals       []goal
}

// A goal is a figure of the last program of a scenario and what it should be.
type goal struct {
	what, unit string
	of         func(*result) float64
	limit      float64
	// beside is the program whose figure is shown for comparison; "" for none.
	beside string
	// ratio means that the limit is on the quotient of both medians.
	ratio bool
	// more means that the limit is on the difference of both medians.
	more bool
}

// The figures of a run.
var (
	wall   = func(r *result) float64 { return r.WallMS }
	memory = func(r *result) float64 { return r.PeakMB }
	growth = func(r *result) float64 { return r.LastGap / r.FirstGap }
	spawns = func(r *result) float64 { return float64(r.Described) }
	first  = func(r *result) float64 { return r.FirstMS }
	turn   = func(r *result) float64 { return r.GapMS }
	// beyond is what a call took beyond the time of the MCP server itself, or without a
	// sandbox.
	beyond = func(r *result) float64 {
		var ms float64
		fmt.Sscanf(r.Out, "%f ms a call", &ms)
		return ms
	}
	// firstCall is what the first of these calls took.
	firstCall = func(r *result) float64 {
		var ms float64
		fmt.Sscanf(r.Out, "%f ms a call, %f ms", new(float64), &ms)
		return ms
	}
	// callOrStart is the time of a turn's calls, and of the whole program where it has
	// no turns.
	callOrStart = func(r *result) float64 {
		if r.GapMS > 0 {
			return r.GapMS
		}
		return r.WallMS
	}
	perRun = func(r *result) float64 {
		var kb float64
		fmt.Sscanf(r.Out, "%f kB a run", &kb)
		return kb
	}
)

// pieces is a figure of the program clients.
func pieces(i int) func(*result) float64 {
	return func(r *result) float64 {
		var ms [2]float64
		fmt.Sscanf(r.Out, "%f ms at the 99th percentile, %f ms in the median", &ms[0], &ms[1])
		return ms[i]
	}
}

// floor is the least program with the tools at a path.
func floor(name, tools string, more ...string) program {
	args := []string{"{floor}", "-base", "{url}", "-prompt", "Run the commands.", "-tools", tools}
	return program{name: name, args: append(args, more...)}
}

// agents is our binary with an agent file.
func agents(file string) program {
	return program{name: "agents", args: []string{"{agents}", "run", "--agent-file", file, "--prompt", "Run the commands."}}
}

func wallRatio(beside string, limit float64) goal {
	return goal{what: "wall time", unit: "ms", of: wall, limit: limit, beside: beside, ratio: true}
}

func peakMemory(beside string, limit float64) goal {
	return goal{what: "peak memory", unit: "MB", of: memory, limit: limit, beside: beside}
}

// confined measures what a sandbox adds to a call.
func confined(rung, by string, limit float64) scenario {
	return scenario{
		name: strings.TrimSuffix("sandbox-"+rung, "-"), title: "200 calls confined " + by,
		programs: []program{{name: "agents", args: []string{"{sandbox}", "-rung", rung, "-calls", "200"}}},
		goals: []goal{
			{what: "median of a call beyond one without", unit: "ms", of: beyond, limit: limit},
			{what: "the first call", unit: "ms", of: firstCall},
		},
	}
}

const tenMiB = "yes 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde | head -c 10485760"

// scenarios are what is measured, in the order of the report.
func scenarios() []scenario {
	one := []program{floor("floor-exe", "{one}/shell"), agents("{one}.json")}
	cold := agents("{fifty}.json")
	cold.forget = true
	many := agents("{one}.json")
	many.dir = "many"
	unkept := agents("{one}.json")
	unkept.name, unkept.args = "--no-session", append(unkept.args, "--no-session")
	list := []scenario{
		{
			name: "start", title: "cold start, `--version`",
			programs: []program{{name: "floor", args: []string{"{floor}", "-version"}}, {name: "agents", args: []string{"{agents}", "--version"}}},
			goals:    []goal{wallRatio("floor", 1.35)},
		}, {
			name: "one-shot", title: "a prompt, no tool call",
			programs: one, goals: []goal{wallRatio("floor-exe", 1.1)},
		}, {
			name: "one-call", title: "one tool call",
			script:   model.Script{Turns: 1, Calls: 1, Command: "/bin/echo hi {n}"},
			expect:   "hi 0",
			programs: one, goals: []goal{wallRatio("floor-exe", 1.15)},
		}, {
			name: "files", title: "one tool call in a folder with 5,000 files",
			script:   model.Script{Turns: 1, Calls: 1, Command: "/bin/echo hi {n}"},
			expect:   "hi 0",
			programs: []program{one[0], many},
			goals:    []goal{{what: "wall time", unit: "ms", of: wall, beside: "floor-exe"}},
		}, {
			name: "sleep-8", title: "8 calls at once that sleep 0.2 s",
			script:   model.Script{Turns: 1, Calls: 8, Command: "/bin/sleep 0.2; /bin/echo slept {n}"},
			expect:   "slept 7",
			programs: one, goals: []goal{{what: "wall time", unit: "ms", of: wall, limit: 225, beside: "floor-exe"}},
		}, {
			name: "calls-64", title: "64 calls in one turn",
			script:   model.Script{Turns: 1, Calls: 64, Command: "/bin/true {n}"},
			programs: one, goals: []goal{wallRatio("floor-exe", 1.07)},
		}, {
			name: "turns-100", title: "100 turns of one call",
			script:   model.Script{Turns: 100, Calls: 1, Command: "/bin/echo turn {n}"},
			expect:   "turn 99",
			programs: one,
			goals: []goal{
				wallRatio("floor-exe", 1.15),
				{what: "last ten turns against the first ten", unit: "×", of: growth, limit: 1.2, beside: "floor-exe"},
				peakMemory("floor-exe", 17.5),
			},
		}, {
			name: "session", title: "the same with and without its session on disk",
			script:   model.Script{Turns: 100, Calls: 1, Command: "/bin/echo turn {n}"},
			expect:   "turn 99",
			programs: []program{unkept, agents("{one}.json")},
			goals:    []goal{{what: "a turn", unit: "ms", of: turn, limit: 1, beside: "--no-session", more: true}},
		}, {
			name: "output-10M", title: "10 MiB of tool output",
			script:   model.Script{Turns: 1, Calls: 1, Command: tenMiB},
			expect:   "0123456789abcdef",
			programs: []program{floor("floor-cut", "{one}/shell", "-keep", "50000"), agents("{one}.json")},
			goals:    []goal{wallRatio("floor-cut", 1), peakMemory("floor-cut", 30)},
		}, {
			name: "tools-50-cold", title: "50 tools, nothing cached",
			programs: []program{floor("floor-50", "{fifty}"), cold},
			goals:    []goal{wallRatio("floor-50", 1.15)},
		}, {
			name: "tools-50-warm", title: "50 tools, descriptions cached",
			programs: []program{floor("floor-exe", "{one}/shell"), agents("{fifty}.json")},
			goals:    []goal{wallRatio("floor-exe", 1.3)},
		}, {
			name: "tools-1000", title: "1,000 tools, descriptions cached",
			programs: []program{agents("{thousand}.json")},
			goals: []goal{
				{what: "tools started to be described", of: spawns, limit: 0},
				{what: "until the model is asked", unit: "ms", of: first},
			},
		}, {
			name: "calls-10000", title: "10,000 calls in one turn", rounds: 1,
			script:   model.Script{Turns: 1, Calls: 10000, Command: "/bin/true {n}"},
			programs: one,
			goals:    []goal{peakMemory("", 64), {what: "wall time", unit: "ms", of: wall, beside: "floor-exe"}},
		}, {
			name: "nested", title: "a nested agent that answers at once",
			script:   model.Script{Turns: 1, Calls: 1, Command: "go", Argument: "prompt"},
			expect:   "the inner answer",
			programs: []program{{name: "--version", args: []string{"{agents}", "--version"}}, agents("{nested}.json")},
			goals:    []goal{{what: "the call against a cold start", unit: "ms", of: callOrStart, limit: 2, beside: "--version", ratio: true}},
		}, {
			name: "nested-100", title: "100 nested agents at once",
			script:   model.Script{Turns: 1, Calls: 100, Command: "go {n}", Argument: "prompt"},
			expect:   "the inner answer",
			programs: []program{agents("{nested}.json")},
			goals:    []goal{{what: "wall time", unit: "ms", of: wall}},
		}, {
			name: "mcp-call", title: "1,000 calls of an MCP server, one after the other",
			programs: []program{{name: "agents", args: []string{"{mcp}", "-calls", "1000"}}},
			goals:    []goal{{what: "median of a call beyond the server's own time", unit: "ms", of: beyond, limit: 1}},
		}, {
			name: "mcp-64", title: "64 calls at once of an MCP server that sleeps 0.2 s",
			script:   model.Script{Turns: 1, Calls: 64, Command: "sleep 0.2 {n}"},
			expect:   "sleep 0.2 63",
			programs: []program{agents("{remote}.json")},
			goals:    []goal{{what: "wall time", unit: "ms", of: wall, limit: 300}}, // 400 if one waited for another
		}, {
			name: "crowd", title: "1,000 runs of 3 turns at once in one process", rounds: 3,
			script:   model.Script{Turns: 2, Calls: 1, Command: "{n}", Together: 1000},
			programs: []program{{name: "agents", args: []string{"{crowd}", "-base", "{url}", "-runs", "1000"}}},
			goals: []goal{
				{what: "memory of a run", unit: "kB", of: perRun, limit: 80},
				{what: "wall time", unit: "ms", of: wall},
			},
		}, {
			name: "clients", title: "1,000 clients of one server, over WebSocket, 10 pieces a second each", rounds: 3,
			programs: []program{{name: "agents", args: []string{"{clients}", "-n", "1000"}}},
			goals: []goal{
				{what: "from the model to the client, 99th percentile", unit: "ms", of: pieces(0)},
				{what: "from the model to the client, median", unit: "ms", of: pieces(1)},
			},
		},
	}
	if runtime.GOOS == "linux" {
		list = append(list, confined("", "by nothing", 0.1), confined("landlock", "by Landlock and seccomp", 1),
			confined("namespaces", "by namespaces, Landlock and seccomp", 3))
	}
	return list
}
