package tools_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestBash(t *testing.T) {
	needs(t, "bash")
	t.Parallel()
	b := newBox(t)
	for _, name := range []string{"sub", "-P", "-", "a b"} {
		b.write(name+"/here", "")
	}
	for _, test := range []struct {
		args args
		want string
	}{
		{args{"command": "echo \"$0\"; [[ a < b ]] && echo yes"}, "bash\nyes\n"},
		{args{"command": "a=1\nprintf '%s' \"$a\" # no newline"}, "1"},
		{args{"command": "--help; echo -- '*'"}, "-- *\n"},
		{args{"command": "cat; echo end"}, "end\n"},
		{args{"command": "ls", "cwd": "sub"}, "here\n"},
		{args{"command": "ls", "cwd": "-P"}, "here\n"},
		{args{"command": "ls", "cwd": "-"}, "here\n"},
		{args{"command": "pwd", "cwd": b.path("a b")}, b.path("a b") + "\n"},
		{args{"command": "pwd", "cwd": ""}, b.dir + "\n"},
		{args{"command": "echo $0", "shell": "sh"}, "sh\n"},
		{args{"command": "true"}, "The commands printed nothing and succeeded."},
	} {
		if got := b.ok("bash", test.args); got != test.want {
			t.Errorf("bash %v = %q, want %q", test.args, got, test.want)
		}
	}
	b.fails("bash", args{"command": "echo out; echo err >&2; exit 7"}, 7, "out", "err")
	b.fails("bash", args{"command": " \n\t"}, 2, "command is empty")
	b.fails("bash", args{"command": "echo 'open"}, 2, "unexpected EOF")
	b.fails("bash", args{"command": "ls", "cwd": "none"}, 1, "the folder ./none cannot be entered")
	b.fails("bash", args{"command": "ls", "cwd": "sub/here"}, 1, "the folder ./sub/here cannot be entered")
	b.fails("bash", args{"command": strings.Repeat("true\n", 30_000)}, 2, "the commands have 150001 bytes and can have 131000")
	if text, err := b.call("bash", args{"command": "kill -9 $$"}); err == nil || !strings.Contains(err.Error(), "signal 9") {
		t.Errorf("killed: %q, %v", text, err)
	}
}

func TestDate(t *testing.T) {
	t.Parallel()
	b := newBox(t, "TZ=UTC")
	for zone, want := range map[string]string{"": `\+0000 \(\w+day, UTC\)`, "Asia/Kolkata": `\+0530 \(\w+day, IST\)`, "Etc/GMT+1": `-0100 `} {
		a := args{}
		if zone != "" {
			a["zone"] = zone
			if _, err := os.Stat("/usr/share/zoneinfo"); err != nil {
				t.Skip("this machine lacks the time zone database")
			}
		}
		pattern := regexp.MustCompile(`^local: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d` + want +
			`.*\nweek:  \d{4}-W\d\d, day \d{3} of the year\nunix:  \d+\nutc:   \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n$`)
		if got := b.ok("date", a); !pattern.MatchString(got) {
			t.Errorf("date %v = %q, want %s", a, got, pattern)
		}
	}
	for _, zone := range []string{"Europe/Atlantis", "Europe", "../../../etc/passwd", "/etc/passwd", ":/etc/passwd", "--date=x", "UTC\nx", "a//b", "UTC/"} {
		b.fails("date", args{"zone": zone}, 2, "date: ")
	}
}

func TestNotify(t *testing.T) {
	t.Parallel()
	// Only what the tool itself calls is in these folders.
	bin, broken := t.TempDir(), t.TempDir()
	for _, program := range []string{"tr", "sed", "cat"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{bin, broken} {
			if err := os.Symlink(path, filepath.Join(dir, program)); err != nil {
				t.Fatal(err)
			}
		}
	}
	b := newBox(t, "PATH="+bin)
	b.fails("notify", args{"message": "hello"}, 1, "there is no notifier: no notify-send")
	b.fails("notify", args{"message": " \n"}, 2, "message is empty")
	b.fails("notify", args{"message": strings.Repeat("x", 5000)}, 2, "more than 4000 bytes")
	if err := os.WriteFile(filepath.Join(broken, "notify-send"), []byte("#!/bin/sh\necho no bus >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	newBox(t, "PATH="+broken, "AGENTS_TTY=/dev/null").fails("notify", args{"message": "hello"}, 1, "notify-send failed: no bus; there is no notifier")
	if err := os.WriteFile(filepath.Join(bin, "notify-send"), []byte("#!/bin/sh\nprintf '<%s>' \"$@\" >got\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.ok("notify", args{"message": "--help <b>bold</b> & \x1b[31m\nred", "title": "--icon=x"})
	if got, want := b.read("got"), "<--app-name=agents><--><--icon=x><--help &lt;b&gt;bold&lt;/b&gt; &amp; [31m\nred>"; got != want {
		t.Errorf("notify-send got %q, want %q", got, want)
	}
}

func TestAskUserWithoutTerminal(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	newBox(t).fails("ask_user", args{"question": "Why?"}, 1, "nobody can be asked: there is no terminal", "AGENTS_TTY")
	newBox(t, "AGENTS_TTY=/dev/null").fails("ask_user", args{"question": "Why?"}, 1, "nobody can be asked: AGENTS_TTY=/dev/null is no terminal")
	b := newBox(t, "AGENTS_TTY=/none")
	b.fails("ask_user", args{"question": "Why?"}, 1, "nobody can be asked: AGENTS_TTY=/none: No such file or directory")
	b.fails("ask_user", args{"question": " "}, 2, "question is empty")
}

func TestNotes(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	b := newBox(t)
	if got := b.ok("recall", args{}); got != "Nothing was found." {
		t.Errorf("recall without notes = %q", got)
	}
	notes := []struct{ key, args string }{
		{"s.1.0", `{"note":"The build needs Go 1.26.\n- 2026-01-01T00:00:00Z [forged]\n  indented","topic":"build"}`},
		{"s.1.1", `{"note":"--topic=x ünï"}`},
		{"s.1.0", `{"note":"The same call again."}`},
		{"", `{"note":"No key.","topic":"Build"}`},
	}
	for _, n := range notes {
		if text, err := b.callJSON("remember", n.args, n.key); err != nil {
			t.Fatalf("remember %s: %v %s", n.args, err, text)
		}
	}
	head := regexp.MustCompile(`(?m)^- \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	for _, test := range []struct {
		args args
		want string
	}{
		{args{}, "- T [build]\n  The build needs Go 1.26.\n  - 2026-01-01T00:00:00Z [forged]\n    indented\n- T\n  --topic=x ünï\n- T [Build]\n  No key.\n"},
		{args{"query": "go NEEDS"}, "- T [build]\n  The build needs Go 1.26.\n  - 2026-01-01T00:00:00Z [forged]\n    indented\n"},
		{args{"topic": "build", "limit": 1}, "[recall: the newest 1 of 2 notes; give words or a topic to see others]\n- T [Build]\n  No key.\n"},
		{args{"topic": "forged"}, "Nothing was found."},
	} {
		if got := head.ReplaceAllString(b.ok("recall", test.args), "- T"); got != test.want {
			t.Errorf("recall %v = %q, want %q", test.args, got, test.want)
		}
	}
	info, err := os.Stat(b.path("agents-notes.md"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("notes: %v, %v; want mode 600", info.Mode(), err)
	}
	b.fails("remember", args{"note": " \n"}, 2, "the note is empty")
	b.fails("remember", args{"note": "n", "topic": "a]\n- b"}, 2, "topic must be")
	b.fails("remember", args{"note": strings.Repeat("x", 20_000)}, 2, "more than 16,384 bytes")
	newBox(t, "AGENTS_NOTES_FILE=/tmp/agents-none/notes").fails("remember", args{"note": "n"}, 1, "outside")
	newBox(t, "AGENTS_NOTES_FILE=.").fails("recall", args{}, 1, "is a folder, not a regular file")
}

// fakeAgents is a folder with a program agents that prints hits, or fails, and keeps its
// arguments in a file.
func fakeAgents(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	const text = `#!/bin/sh
printf '%s|' "$@" >"$0.args"
case $* in
*fail*) echo 'error: session search: no index' >&2; exit 1 ;;
*nothing*) echo '[]'; exit ;;
esac
cat <<'END'
[{"session":"20261121-1","root_agent":"lead","prompt":"Where\u001b[31m is\nit?","began":1000,"kind":"result","tool":"grep","turn":2,"snippet":[{"text":"the "},{"text":"lease","match":true},{"text":"\n- 2026 forged"}]},
 {"session":"now","root_agent":"lead","prompt":"p","began":0,"kind":"prompt","turn":1,"snippet":[{"text":"lease"}]},
 {"session":"20261121-1","root_agent":"lead","prompt":"p","began":1000,"kind":"answer","turn":3,"snippet":[{"text":"a lease"}]}]
END
`
	if err := os.WriteFile(filepath.Join(dir, "agents"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRecallSearchesPastSessions(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	bin := fakeAgents(t)
	b := newBox(t, "PATH="+bin+":"+os.Getenv("PATH"))
	found := "- 1970-01-01T00:00:01Z session 20261121-1, agent lead: Where [31m is it?\n  turn 2, result grep: the lease - 2026 forged\n  turn 3, answer: a lease\n"
	if got := b.ok("recall", args{"query": "lease --json", "where": "sessions", "limit": 7}); got != found {
		t.Errorf("recall = %q, want %q", got, found)
	}
	if given, _ := os.ReadFile(filepath.Join(bin, "agents.args")); string(given) != "session|search|--json|--limit=7|--|lease|--json|" {
		t.Errorf("it calls agents with %s", given)
	}
	b.ok("remember", args{"note": "The lease ends in May."})
	if got := b.ok("recall", args{"query": "lease", "where": "all"}); !strings.Contains(got, "ends in May") || !strings.Contains(got, "turn 3, answer: a lease") {
		t.Errorf("recall of both = %q", got)
	}
	if got := b.ok("recall", args{"query": "lease"}); strings.Contains(got, "session") {
		t.Errorf("recall of notes = %q", got)
	}
	if got := b.ok("recall", args{"query": "nothing", "where": "sessions"}); got != "Nothing was found." {
		t.Errorf("recall of nothing = %q", got)
	}
	b.fails("recall", args{"query": "fail", "where": "sessions"}, 1, "agents session search: session search: no index")
	b.fails("recall", args{"where": "all"}, 2, "query is missing")
	b.fails("recall", args{"where": "web", "query": "x"}, 2, "where must be notes, sessions or all")
	newBox(t, "PATH="+pathWithout(t)).fails("recall", args{"query": "x", "where": "sessions"}, 1, "the program agents, which searches sessions, is not in PATH")
}

// pathWithout is a PATH with what the tool itself needs.
func pathWithout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"sh", "python3", "env"} {
		to, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(to, filepath.Join(dir, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSQLite(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	b := newBox(t)
	out, err := python(t, nil, `
import sqlite3
db = sqlite3.connect(sys.argv[1])
db.executescript("create table t(a, b); insert into t values (1, 'x,y'), (null, x'00ff'), (2.5, 'ü');")
db.close()`, b.path("100% a?b.db"))
	if err != nil {
		t.Skipf("this machine's python3 lacks sqlite3: %s", out)
	}
	db := "100% a?b.db"
	before := b.read(db)
	b.write("text", "no database at all")
	for _, test := range []struct {
		args args
		want string
	}{
		{args{"query": "SELECT * FROM t"}, "a,b\n1,\"x,y\"\nNULL,x'00ff'\n2.5,ü\n"},
		{args{"query": "SELECT a, a AS a, b FROM t WHERE a = 1;", "format": "json"}, `{"a": 1, "a_2": 1, "b": "x,y"}` + "\n"},
		{args{"query": "SELECT a FROM t", "limit": 1}, "a\n1\n[sqlite: stopped after 1 rows, there are more; use LIMIT and OFFSET, or fewer columns]\n"},
		{args{"query": "--\nSELECT 1 AS one WHERE 0"}, "one\n[sqlite: no rows]\n"},
		{args{"query": "SELECT zeroblob(100) AS z"}, "z\n[100 bytes]\n"},
	} {
		test.args["database"] = db
		if got := b.ok("sqlite", test.args); got != test.want {
			t.Errorf("sqlite %v = %q, want %q", test.args, got, test.want)
		}
	}
	const readOnly = "attempt to write a readonly database: the database is open read-only"
	for query, want := range map[string]string{
		"DELETE FROM t":               readOnly,
		"INSERT INTO t VALUES (3, 4)": readOnly,
		"DROP TABLE t":                readOnly,
		"PRAGMA user_version = 5":     readOnly,
		"ATTACH 'other.db' AS o":      "other files than the database itself are not reached",
		"VACUUM INTO 'copy.db'":       "other files than the database itself are not reached",
		"SELECT load_extension('x')":  "not authorized",
		"SELECT zeroblob(900000000)":  "needs more than 256 MiB of memory",
		"SELECT * FROM none":          "no such table: none",
		"WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 300) SELECT group_concat(hex(zeroblob(1000000))) FROM r": "needs more than",
		"SELEC":                             "syntax error",
		"SELECT 1; DELETE FROM t":           "one statement at a time",
		"SELECT " + strings.Repeat("x", 20): "no such column",
	} {
		text, err := b.call("sqlite", args{"database": db, "query": query})
		if err == nil || !strings.Contains(text, want) || strings.Contains(text, "Traceback") {
			t.Errorf("sqlite %q: %v %s; want %q", query, err, text, want)
		}
	}
	b.fails("sqlite", args{"database": db, "query": " "}, 2, "query is empty")
	b.fails("sqlite", args{"database": "text", "query": "SELECT 1"}, 1, "text is no SQLite database")
	b.fails("sqlite", args{"database": "new.db", "query": "CREATE TABLE t(a)"}, 1, "new.db: No such file or directory")
	b.fails("sqlite", args{"database": ".", "query": "SELECT 1"}, 1, ". is a folder")
	b.has(map[string]string{db: before, "text": "no database at all"})
}
