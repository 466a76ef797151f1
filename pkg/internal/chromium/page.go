package chromium

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Page is a tab of a browser without a window. It is directed over a pipe, with the
// DevTools protocol.
type Page struct {
	t       *testing.T
	to      *os.File
	session string

	mu      sync.Mutex
	id      int
	waiting map[int]chan reply
	Errors  []string // what the page wrote to the console as an error; read it after Close
}

type reply struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct{ Message string }
}

// Open starts a browser with an empty page of a size. The test is skipped if there is none.
func Open(t *testing.T, width, height int, scheme string) *Page {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("the page is looked at in chromium, which is not installed")
	}
	home, err := os.MkdirTemp("", "browser")
	if err != nil {
		t.Fatal(err)
	}
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append(flags(home), "--remote-debugging-pipe", "about:blank")...)
	cmd.ExtraFiles = []*os.File{in, out}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	out.Close()
	p := &Page{t: t, to: to, waiting: map[int]chan reply{}}
	var reading sync.WaitGroup
	reading.Go(func() { p.read(from) })
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		to.Close()
		from.Close()
		reading.Wait()
		os.RemoveAll(home)
	})
	var target struct{ TargetID, SessionID string }
	p.call("Target.createTarget", map[string]string{"url": "about:blank"}, &target)
	p.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	p.session = target.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		p.call(domain+".enable", nil, nil)
	}
	p.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	p.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	return p
}

// read passes on what the browser says, each message up to a zero byte.
func (p *Page) read(from *os.File) {
	in := bufio.NewReader(from)
	for {
		text, err := in.ReadBytes(0)
		var r reply
		if err == nil {
			err = json.Unmarshal(text[:len(text)-1], &r)
		}
		p.mu.Lock()
		if err != nil {
			for _, c := range p.waiting {
				close(c)
			}
			p.waiting = nil
			p.mu.Unlock()
			return
		}
		switch {
		case r.ID > 0 && p.waiting[r.ID] != nil:
			p.waiting[r.ID] <- r
			delete(p.waiting, r.ID)
		case r.Method == "Runtime.exceptionThrown", r.Method == "Log.entryAdded" && strings.Contains(string(r.Params), `"level":"error"`):
			p.Errors = append(p.Errors, string(r.Params))
		}
		p.mu.Unlock()
	}
}

func (p *Page) try(method string, params, result any) error {
	p.mu.Lock()
	if p.waiting == nil {
		p.mu.Unlock()
		return errors.New("the browser has ended")
	}
	p.id++
	c := make(chan reply, 1)
	p.waiting[p.id] = c
	text, err := json.Marshal(map[string]any{"id": p.id, "method": method, "params": params, "sessionId": p.session})
	if p.session == "" {
		text, err = json.Marshal(map[string]any{"id": p.id, "method": method, "params": params})
	}
	if err == nil {
		_, err = p.to.Write(append(text, 0))
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case r, ok := <-c:
		switch {
		case !ok:
			return errors.New("the browser has ended")
		case r.Error != nil:
			return errors.New(r.Error.Message)
		case result != nil:
			return json.Unmarshal(r.Result, result)
		}
		return nil
	case <-time.After(2 * time.Minute):
		return errors.New("the browser does not answer")
	}
}

func (p *Page) call(method string, params, result any) {
	p.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	if err := p.try(method, params, result); err != nil {
		p.t.Fatalf("%s: %v", method, err)
	}
}

// Go opens an address.
func (p *Page) Go(address string) {
	p.t.Helper()
	p.call("Page.navigate", map[string]any{"url": address}, nil)
}

// Eval evaluates an expression and returns its value as text.
func (p *Page) Eval(expression string) string {
	p.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	p.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		p.t.Fatalf("%s: %s", expression, r.ExceptionDetails)
	}
	return fmt.Sprint(r.Result.Value)
}

// Wait waits until an expression is true.
func (p *Page) Wait(expression string) {
	p.t.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var r struct{ Result struct{ Value any } }
		err := p.try("Runtime.evaluate", map[string]any{"expression": "Boolean(" + expression + ")", "returnByValue": true}, &r)
		if err == nil && r.Result.Value == true {
			return
		}
		if time.Now().After(late) {
			p.t.Fatalf("it does not become true: %s (%v)\n%s\n%s", expression, err, p.Eval("document.body.innerText"), p.Said())
		}
	}
}

// WaitInFrame waits until an expression is true in the frame of the page, which has a process of
// its own.
func (p *Page) WaitInFrame(expression string) {
	p.t.Helper()
	own := p.session
	defer func() { p.session = own }()
	for late := time.Now().Add(time.Minute); p.session == own; time.Sleep(20 * time.Millisecond) {
		var list struct {
			TargetInfos []struct{ TargetID, Type string }
		}
		p.session = ""
		p.call("Target.getTargets", nil, &list)
		p.session = own
		for _, target := range list.TargetInfos {
			var frame struct{ SessionID string }
			if target.Type == "iframe" {
				p.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &frame)
				p.session = frame.SessionID
			}
		}
		if time.Now().After(late) {
			p.t.Fatal("there is no frame")
		}
	}
	p.Wait(expression)
}

// Said returns the errors of the page.
func (p *Page) Said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.Errors, "\n")
}

// Press presses a key, such as "j" or "Enter".
func (p *Page) Press(key string) {
	p.t.Helper()
	down := map[string]any{"type": "keyDown", "key": key}
	switch {
	case len(key) == 1:
		down["text"] = key
	case key == "Enter":
		down["text"], down["code"], down["windowsVirtualKeyCode"] = "\r", "Enter", 13
	case key == "Tab":
		down["code"], down["windowsVirtualKeyCode"] = "Tab", 9
	}
	p.call("Input.dispatchKeyEvent", down, nil)
	p.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key}, nil)
}

// Type types a text.
func (p *Page) Type(text string) {
	p.t.Helper()
	p.call("Input.insertText", map[string]any{"text": text}, nil)
}

// Screenshot writes a picture of the page.
func (p *Page) Screenshot(path string) {
	p.t.Helper()
	var r struct{ Data string }
	p.call("Page.captureScreenshot", map[string]any{"format": "png"}, &r)
	data, err := base64.StdEncoding.DecodeString(r.Data)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
