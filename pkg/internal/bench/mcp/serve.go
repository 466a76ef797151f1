package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// results are the answers to all requests but calls.
var results = map[string]string{
	"server/discover": `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`,
	"tools/list": `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"shell","description":"run a command",` +
		`"inputSchema":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}]}`,
}

// serve answers requests, each call in a goroutine of its own.
func serve(r io.Reader, w io.Writer) error {
	var mu sync.Mutex
	var calls sync.WaitGroup
	defer calls.Wait()
	answer := func(id json.RawMessage, kind, value string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"%s":%s}`+"\n", id, kind, value)
	}
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		start := time.Now()
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return err
		}
		result, known := results[m.Method]
		switch {
		case m.Method == "tools/call":
			calls.Go(func() { answer(m.ID, "result", call(m.Params.Arguments.Command, start)) })
		case known:
			answer(m.ID, "result", result)
		case m.ID != nil:
			answer(m.ID, "error", `{"code":-32601,"message":"method not found"}`)
		}
	}
}

// call is the result of the tool.
func call(command string, start time.Time) string {
	if rest, ok := strings.CutPrefix(command, "sleep "); ok {
		var seconds float64
		fmt.Sscan(rest, &seconds)
		time.Sleep(time.Duration(seconds * float64(time.Second)))
	}
	text, _ := json.Marshal(command) // a string always encodes
	return fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%s},{"type":"text","text":" %d"}]}`, text, time.Since(start))
}
