package process

import (
	"slices"
	"strings"
	"testing"
)

func TestScriptLine(t *testing.T) {
	for head, want := range map[string][]string{
		"":                                   nil,
		"MZ":                                 nil,
		"#!/bin/sh\nset":                     {"/bin/sh"},
		"#! /bin/sh -eu x\r\n":               {"/bin/sh", "-eu x"},
		"#!\t/bin/sh\t-e\n":                  {"/bin/sh", "-e"},
		"#!/usr/bin/env python3\n":           {"python3"},
		"#!/usr/bin/env -S node --flag  x\n": {"node", "--flag", "x"},
		"#!/usr/bin/env -Snode\n":            {"node"},
		`#!C:\bin\tool.exe x` + "\n":         {`C:\bin\tool.exe`, "x"},
		"#!/bin/sh":                          {"/bin/sh"},
	} {
		if got, err := scriptLine([]byte(head)); err != nil || !slices.Equal(got, want) {
			t.Errorf("scriptLine(%q) = %q, %v, want %q", head, got, err, want)
		}
	}
	for _, head := range []string{"#!\n", "#!/usr/bin/env\n", "#!/usr/bin/env -S\n", "#!/usr/bin/env -i sh\n", "#!/usr/bin/env -S A=1 sh\n", `#!/usr/bin/env -S sh "a b"` + "\n", "#!/" + strings.Repeat("x", headBytes-3)} {
		if got, err := scriptLine([]byte(head)); err == nil {
			t.Errorf("scriptLine(%q) = %q, want an error", head, got)
		}
	}
}

func TestBatchFilesGetOnlyArgumentsThatCmdDoesNotChange(t *testing.T) {
	const shell, begin = `C:\W\cmd.exe`, `"C:\W\cmd.exe" /d /e:on /v:off /s /c ""C:\a & b\x.cmd"`
	for arg, want := range map[string]string{
		"run": "run", "--a=b": `"--a=b"`, `C:\x\`: `C:\x\`, "": `""`, "two words": `"two words"`, "a;b,c": `"a;b,c"`, "é文": `"é文"`, "it's": `"it's"`, "a*?": "a*?",
	} {
		if got, err := batchLine(shell, []string{`C:\a & b\x.cmd`, arg}); err != nil || got != begin+" "+want+`"` {
			t.Errorf("batchLine(%q) = %s, %v, want %s", arg, got, err, want)
		}
	}
	refused := []string{`two words\`, `é\`, "\x7f", "\u0085"}
	for _, r := range "\"%!^&|<>()\r\n\x00\x01\t\x1a" {
		refused = append(refused, string(r), "a"+string(r)+"b")
	}
	for _, arg := range refused {
		if got, err := batchLine(shell, []string{"x.cmd", "run", arg}); err == nil || !strings.HasPrefix(err.Error(), "argument 2 ") {
			t.Errorf("batchLine(%q) = %s, %v, want an error", arg, got, err)
		}
	}
	for _, argv := range [][]string{{`C:\%PATH%\x.cmd`}, {"x.cmd", strings.Repeat("x", maxBatchLine)}} {
		if got, err := batchLine(shell, argv); err == nil {
			t.Errorf("batchLine(%.20q) = %.40s, want an error", argv, got)
		}
	}
}

func TestNamesOfOtherFiles(t *testing.T) {
	for _, name := range []string{"x.cmd.", "x.cmd ", "x.cmd. .", "x.cmd::$DATA", "x.exe:y.cmd", "dir/x.exe "} {
		if checkName(name) == nil {
			t.Errorf("checkName(%q) = nil", name)
		}
	}
	for _, name := range []string{"x.cmd", "a.b/x", "x y.exe"} {
		if err := checkName(name); err != nil {
			t.Errorf("checkName(%q) = %v", name, err)
		}
	}
	for name, want := range map[string]bool{"x.cmd": true, "X.BaT": true, "x.exe": false, "cmd": false, "x.cmd.exe": false} {
		if got := isBatch(name); got != want {
			t.Errorf("isBatch(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestUniqueEnviron(t *testing.T) {
	got := uniqueEnviron([]string{"Path=a", "X=1", "PATH=b", "x=2"}, `C:\W`)
	if want := []string{`SYSTEMROOT=C:\W`, "PATH=b", "x=2"}; !slices.Equal(got, want) {
		t.Errorf("uniqueEnviron = %q, want %q", got, want)
	}
	if got := uniqueEnviron([]string{"SystemRoot=D"}, "C"); !slices.Equal(got, []string{"SystemRoot=D"}) {
		t.Errorf("uniqueEnviron = %q", got)
	}
}
