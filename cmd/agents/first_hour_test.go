package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/trial/tmuxtest"
)

func init() {
	if flag.Lookup("update") == nil {
		flag.Bool("update", false, "write the golden screens")
	}
}

// TestFirstMinutes is the path of a person with the program and a model server, from an
// empty home folder to an agent that answers with a tool of their own.
func TestFirstMinutes(t *testing.T) {
	port := serverPort(t, playModel)
	server := fmt.Sprintf("127.0.0.1:%d", port)
	s := tmuxtest.Open(t, tmuxtest.Options{
		Command: "PS1='$ ' ENV= sh -i", Links: links(t), Columns: 100, Names: map[string]string{server: "SERVER"},
	})
	began := time.Now()
	s.Await(`^\$ $|^\$$`)
	s.Type("agents init")
	s.Press("Enter")
	s.Await(`^Which agent\?(?s:.*)^number \[1\]:`)
	s.Press("Enter") // the assistant
	s.Await(`^Which model should it use\?(?s:.*)^number \[1\]:`)
	s.Type("14") // another that speaks OpenAI's protocol
	s.Press("Enter")
	s.Await(`^Its base URL`)
	s.Type("http://" + server + "/v1")
	s.Press("Enter")
	s.Await(`^write it\? yes or no \[yes\]:`)
	s.Press("Enter")
	s.Await(`^try: agents\n\$$`)

	s.Type("agents new tool repeat")
	s.Press("Enter")
	s.Await(`^try: agents tool call tools/repeat.sh --arg text=hello --arg times=2\n\$$`)
	s.Type("agents tool call tools/repeat.sh --arg text=hello --arg times=2")
	s.Press("Enter")
	s.Await(`^hello\nhello\n\$$`)
	s.Golden("first-minutes")
	s.Type("agents run --no-session 'Say hello three times.'")
	s.Press("Enter")
	s.Await(`bash_repeat text=hello times=3`)
	s.Await(`^The tool said:\n\nhello`)
	s.Await(`2 turns.*\n\$$`)
	t.Logf("from an empty home folder to an answer with the tool: %s, without the person's typing", time.Since(began).Round(time.Millisecond))
}

// playModel is a model server: its model calls the tool repeat once, and answers with the
// result.
func playModel(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/models" {
		fmt.Fprint(w, `{"data":[{"id":"tiny"}]}`)
		return
	}
	var request struct {
		Messages []struct {
			Role    string `json:"role"`
			Content any    `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	names := fmt.Sprint(request.Tools)
	delta := `{"role":"assistant","tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"bash_repeat","arguments":"{\"text\":\"hello\",\"times\":3}"}}]}`
	finish := "tool_calls"
	switch last := request.Messages[len(request.Messages)-1]; {
	case !strings.Contains(names, "bash_repeat"):
		delta, finish = `{"role":"assistant","content":"I have no such tool."}`, "stop"
	case last.Role == "tool":
		text, _ := json.Marshal(fmt.Sprintf("The tool said:\n\n%v", last.Content))
		delta, finish = `{"role":"assistant","content":`+string(text)+`}`, "stop"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"model\":\"tiny\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%q}]}\n\n", delta, finish)
	fmt.Fprint(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"model\":\"tiny\",\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5,\"total_tokens\":15}}\n\ndata: [DONE]\n\n")
}
