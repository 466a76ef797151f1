// Command floor is the least that a program which runs agents can be: net/http,
// os/exec and a loop, without limits, checks, retries or logs. What it costs is
// what the machine costs; package main of the folder above compares with it.
//
//	floor -base URL -tools PATH -prompt TEXT
//
// PATH is an executable with describe and run, or a folder of them.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

func main() {
	version := flag.Bool("version", false, "print the version")
	base := flag.String("base", "", "`URL` of the model")
	tools := flag.String("tools", "", "executable or folder of them")
	keep := flag.Int("keep", 1<<30, "how many `bytes` of a tool's output go to the model")
	prompt := flag.String("prompt", "", "the prompt")
	flag.Parse()
	if *version {
		fmt.Println("floor 1")
		return
	}
	l := &loop{url: *base + "/chat/completions", keep: *keep, paths: map[string]string{}}
	err := l.describe(*tools)
	if err == nil {
		l.messages = []message{{Role: "system", Content: "You run commands."}, {Role: "user", Content: *prompt}}
		err = l.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

type message struct {
	Role    string     `json:"role"`
	Content string     `json:"content"`
	Calls   []toolCall `json:"tool_calls,omitempty"`
	CallID  string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// loop is one conversation.
type loop struct {
	url      string
	keep     int
	paths    map[string]string // of the tools, by slug
	tools    []json.RawMessage
	messages []message
}

// describe asks all tools at the same time what they are called.
func (l *loop) describe(path string) error {
	paths, err := filepath.Glob(filepath.Join(path, "*"))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		paths = []string{path}
	}
	slugs := make([]struct{ Slug, Description string }, len(paths))
	errs := make([]error, len(paths))
	var wg sync.WaitGroup
	for i, path := range paths {
		wg.Go(func() {
			out, err := exec.Command(path, "describe").Output()
			if err == nil {
				err = json.Unmarshal(out, &slugs[i])
			}
			errs[i] = err
		})
	}
	wg.Wait()
	for i, s := range slugs {
		if errs[i] != nil {
			return fmt.Errorf("describe %s: %w", paths[i], errs[i])
		}
		l.paths[s.Slug] = paths[i]
		l.tools = append(l.tools, json.RawMessage(fmt.Sprintf(
			`{"type":"function","function":{"name":%q,"description":%q,"parameters":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}}`,
			s.Slug, s.Description)))
	}
	return nil
}

// run takes turns until there is an answer, and prints it.
func (l *loop) run() error {
	for {
		m, err := l.ask()
		if err != nil {
			return err
		}
		l.messages = append(l.messages, m)
		if len(m.Calls) == 0 {
			fmt.Println(m.Content)
			return nil
		}
		results := make([]message, len(m.Calls))
		var wg sync.WaitGroup
		for i, c := range m.Calls {
			wg.Go(func() { results[i] = l.call(c) })
		}
		wg.Wait()
		l.messages = append(l.messages, results...)
	}
}

func (l *loop) ask() (message, error) {
	body, err := json.Marshal(map[string]any{"model": "m", "messages": l.messages, "tools": l.tools})
	if err != nil {
		return message{}, err
	}
	resp, err := http.Post(l.url, "application/json", bytes.NewReader(body))
	if err != nil {
		return message{}, err
	}
	defer resp.Body.Close()
	var answer struct{ Choices []struct{ Message message } }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Choices) == 0 {
		return message{}, fmt.Errorf("%s: %s: no answer: %w", l.url, resp.Status, err)
	}
	return answer.Choices[0].Message, nil
}

// call runs a tool. How it ends does not matter here.
func (l *loop) call(c toolCall) message {
	var args struct{ Command string }
	json.Unmarshal([]byte(c.Function.Arguments), &args)
	out := first{left: l.keep}
	cmd := exec.Command(l.paths[c.Function.Name], "run", args.Command)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Run()
	return message{Role: "tool", CallID: c.ID, Content: string(out.kept)}
}

// first keeps the beginning of what is written to it.
type first struct {
	kept []byte
	left int
}

func (f *first) Write(p []byte) (int, error) {
	k := min(len(p), f.left)
	f.kept = append(f.kept, p[:k]...)
	f.left -= k
	return len(p), nil
}
