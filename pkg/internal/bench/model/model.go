// Package model is a model server for measurements. It speaks chat completions on
// loopback, streamed or not as the request says, and asks for the tool calls that
// its [Script] names.
//
//	s := &model.Server{}
//	s.Play(model.Script{Turns: 1, Calls: 1, Command: "/bin/echo hi"})
//	go http.Serve(listener, s)
//	… s.Requests() returns when requests came and what was in them
package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Answer is the text of the last answer of every conversation.
const Answer = "All commands ran."

// Tool is how the name of the tool that is called must end.
const Tool = "shell"

// A Script is what the server answers. Which answer is next follows from the
// conversation in the request alone, so one script serves any number of them.
type Script struct {
	// Turns is how many answers of a conversation call tools.
	Turns int
	// Calls is how many calls each of them has.
	Calls int
	// Command is the argument "command" of a call. {n} is replaced by the call's
	// number in the conversation, from 0.
	Command string
	// Argument replaces the name "command".
	Argument string
	// Together is how many requests must be waiting before any is answered, so
	// that as many conversations go in step; 0 and 1 answer at once.
	Together int
}

// A Request is what the server saw of one.
type Request struct {
	Arrived  time.Time
	Answered time.Time // when the last byte of the answer was written
	// Results is the number of tool results in the conversation, and Last the
	// beginning of the last one.
	Results int
	Last    string
}

// A Server is the model. Its zero value plays the empty Script: it answers at
// once. It is safe for concurrent use.
type Server struct {
	mu       sync.Mutex
	script   Script
	requests []Request
	waiting  []chan struct{}
}

// Play starts a script and forgets the requests so far.
func (s *Server) Play(script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script, s.requests = script, nil
}

// Requests returns the requests since Play, in the order of their answers.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// ask is what the server reads of a request.
type ask struct {
	Stream bool `json:"stream"`
	Tools  []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	seen := Request{Arrived: time.Now()}
	var a ask
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	script := s.script
	s.mu.Unlock()
	s.wait(script.Together)
	turns := 0
	for _, m := range a.Messages {
		switch m.Role {
		case "assistant":
			turns++
		case "tool":
			seen.Results++
			seen.Last = string(m.Content[:min(len(m.Content), 200)])
		}
	}
	if err := script.answer(w, &a, turns); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	seen.Answered = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, seen)
}

// wait returns when n requests wait in it.
func (s *Server) wait(n int) {
	if n <= 1 {
		return
	}
	s.mu.Lock()
	if len(s.waiting) == n-1 {
		for _, c := range s.waiting {
			close(c)
		}
		s.waiting = nil
		s.mu.Unlock()
		return
	}
	c := make(chan struct{})
	s.waiting = append(s.waiting, c)
	s.mu.Unlock()
	<-c
}

// answer writes the answer of the turn after the given number of them.
func (s *Script) answer(w http.ResponseWriter, a *ask, turns int) error {
	var calls []call
	if turns < s.Turns {
		name := ""
		for _, t := range a.Tools {
			if strings.HasSuffix(t.Function.Name, Tool) {
				name = t.Function.Name
			}
		}
		if name == "" {
			return fmt.Errorf("there is no tool %s among %d", Tool, len(a.Tools))
		}
		for i := range s.Calls {
			calls = append(calls, newCall(name, cmp.Or(s.Argument, "command"), s.Command, turns*s.Calls+i, i))
		}
	}
	if a.Stream {
		return stream(w, calls)
	}
	m := message{Role: "assistant", Calls: calls}
	if len(calls) == 0 {
		m.Content = Answer
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(completion{
		ID: "x", Object: "chat.completion", Model: "fake",
		Choices: []choice{{Message: &m, Finish: finish(calls)}}, Usage: &usage{10, 5, 15},
	})
}

// stream writes the answer as server-sent events, each call in two pieces.
func stream(w http.ResponseWriter, calls []call) error {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(d *message, finish string) error {
		c := completion{ID: "x", Object: "chat.completion.chunk", Model: "fake"}
		if d == nil {
			c.Choices, c.Usage = []choice{}, &usage{10, 5, 15}
		} else {
			c.Choices = []choice{{Delta: d, Finish: finish}}
		}
		data, err := json.Marshal(c)
		if err == nil {
			_, err = fmt.Fprintf(w, "data: %s\n\n", data)
		}
		return err
	}
	list := []*message{{Role: "assistant"}}
	if len(calls) == 0 {
		for _, word := range strings.SplitAfter(Answer, " ") {
			list = append(list, &message{Content: word})
		}
	}
	for _, c := range calls {
		half := len(c.Function.Arguments) / 2
		second := call{Index: c.Index, Function: function{Arguments: c.Function.Arguments[half:]}}
		c.Function.Arguments = c.Function.Arguments[:half]
		list = append(list, &message{Calls: []call{c}}, &message{Calls: []call{second}})
	}
	for _, m := range list {
		if err := send(m, ""); err != nil {
			return err
		}
	}
	if err := send(&message{}, finish(calls)); err != nil {
		return err
	}
	if err := send(nil, ""); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, "data: [DONE]\n\n")
	return err
}

func finish(calls []call) string {
	if len(calls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

func newCall(name, argument, command string, n, index int) call {
	args, _ := json.Marshal(map[string]string{argument: strings.ReplaceAll(command, "{n}", strconv.Itoa(n))}) // strings always encode
	return call{Index: &index, ID: "call_" + strconv.Itoa(n), Type: "function", Function: function{Name: name, Arguments: string(args)}}
}

// The parts of an answer.
type (
	completion struct {
		ID      string   `json:"id"`
		Object  string   `json:"object"`
		Model   string   `json:"model"`
		Choices []choice `json:"choices"`
		Usage   *usage   `json:"usage,omitempty"`
	}
	choice struct {
		Index   int      `json:"index"`
		Message *message `json:"message,omitempty"`
		Delta   *message `json:"delta,omitempty"`
		Finish  string   `json:"finish_reason,omitempty"`
	}
	message struct {
		Role    string `json:"role,omitempty"`
		Content string `json:"content,omitempty"`
		Calls   []call `json:"tool_calls,omitempty"`
	}
	call struct {
		Index    *int     `json:"index,omitempty"`
		ID       string   `json:"id,omitempty"`
		Type     string   `json:"type,omitempty"`
		Function function `json:"function"`
	}
	function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	}
	usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	}
)
