package tools_test

import (
	"strings"
	"testing"
)

const numbers = "1\n2\n3\n4\n5\n6\n7\n8\n9\n"

func TestPatch(t *testing.T) {
	needs(t, "python3")
	for _, test := range []struct {
		name          string
		before, after map[string]string
		patch         string
	}{
		{"a line", map[string]string{"f": numbers}, map[string]string{"f": strings.Replace(numbers, "5\n", "five\n", 1)},
			"--- a/f\n+++ b/f\n@@ -4,3 +4,3 @@\n 4\n-5\n+five\n 6\n"},
		{"two hunks and an offset", map[string]string{"f": "0\n" + numbers}, map[string]string{"f": "0\n2\n3\n4\n5\n6\n7\n8\n8.5\n9\n"},
			"--- f\t2026-01-01\n+++ f\t2026-01-02\n@@ -1,2 +1,1 @@\n-1\n 2\n@@ -8,2 +7,3 @@ context\n 8\n+8.5\n 9\n"},
		{"several files, created and deleted", map[string]string{"f": "a\n", "old": "x\n"}, map[string]string{"f": "b\n", "new/file": "n\n"},
			"a word before\ndiff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n" +
				"diff --git a/new/file b/new/file\nnew file mode 100644\n--- /dev/null\n+++ b/new/file\n@@ -0,0 +1 @@\n+n\n" +
				"diff --git a/old b/old\ndeleted file mode 100644\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n-- \n2.39.5\n"},
		{"no newline at the end", map[string]string{"f": "a\nb"}, map[string]string{"f": "a\nc\n"},
			"--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n"},
		{"newline removed", map[string]string{"f": "a\n"}, map[string]string{"f": "a"},
			"--- f\n+++ f\n@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file"},
		{"CR LF", map[string]string{"f": "a\r\nb\r\n"}, map[string]string{"f": "a\r\nc\r\n"},
			"--- f\r\n+++ f\r\n@@ -1,2 +1,2 @@\r\n a\r\n-b\r\n+c\r\n"},
		{"a blank that an editor removed", map[string]string{"f": "a\n\nb\n"}, map[string]string{"f": "a\n\nc\n"},
			"--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n"},
		{"a quoted name", map[string]string{"ä b": "a\n"}, map[string]string{"ä b": "b\n"},
			"--- \"a/\\303\\244 b\"\n+++ \"b/\\303\\244 b\"\n@@ -1 +1 @@\n-a\n+b\n"},
		{"insertion without context", map[string]string{"f": numbers}, map[string]string{"f": "1\n2\nnew\n" + numbers[4:]},
			"--- f\n+++ f\n@@ -2,0 +3 @@\n+new\n"},
		{"one file twice", map[string]string{"f": "a\n"}, map[string]string{"f": "c\n"},
			"--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n--- ./f\n+++ ./f\n@@ -1 +1 @@\n-b\n+c\n"},
		{"lines that look like headers", map[string]string{"f": "-- a\n"}, map[string]string{"f": "++ b\n"},
			"--- f\n+++ f\n@@ -1 +1 @@\n--- a\n+++ b\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			for name, content := range test.before {
				b.write(name, content)
			}
			b.ok("patch", args{"patch": test.patch, "check": true})
			b.has(test.before)
			b.ok("patch", args{"patch": test.patch})
			b.has(test.after)
		})
	}
}

// Whatever is wrong, no file changes, not even those that would fit.
func TestPatchFails(t *testing.T) {
	needs(t, "python3")
	const good = "--- a/good\n+++ b/good\n@@ -1 +1 @@\n-a\n+b\n"
	files := map[string]string{"good": "a\n", "f": numbers, "twice": "x\na\nx\nx\na\nx\n", "binary": "\x00\n", "short": "a"}
	for _, test := range []struct {
		name, patch string
		status      int
		want        string
	}{
		{"nothing", "", 2, "this is no unified diff"},
		{"prose", "please change f", 2, "this is no unified diff"},
		{"no such lines", good + "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n 1\n-two\n+2\n", 1, `line 2 of f is '2\n', not 'two\n'`},
		{"several places", good + "--- a/twice\n+++ b/twice\n@@ -4,2 +4,2 @@\n-a\n+b\n x\n", 1, "not at line 4 of twice but at 2 others (2, 5)"},
		{"wrong count", good + "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n", 2, "says that 3 lines become 3, but it has 2 and 2"},
		{"count too small", good + "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-1\n+one\n 2\n@@ -5 +5 @@\n-5\n+five\n", 2, "line counts are too small"},
		{"giant number", good + "--- a/f\n+++ b/f\n@@ -" + strings.Repeat("9", 5000) + " +1 @@\n-1\n+one\n", 2, "a hunk begins with @@ -LINE,COUNT"},
		{"no file", good + "--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n", 1, "none: no such file; nothing is changed"},
		{"is there already", good + "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n", 1, "f is to be created but is there already"},
		{"deleted but not empty", good + "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n", 1, "f is to be deleted but would keep 8 lines"},
		{"rename", good + "diff --git a/f b/g\nrename from f\nrename to g\n", 1, "renames are not supported"},
		{"two names", good + "--- a/f\n+++ b/g\n@@ -1 +1 @@\n-1\n+one\n", 1, "renames are not supported"},
		{"link", good + "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n\\ No newline at end of file\n", 1, "links are not supported"},
		{"binary", good + "diff --git a/x b/x\nGIT binary patch\n", 1, "binary patches are not supported"},
		{"empty file", good + "diff --git a/e b/e\nnew file mode 100644\n", 1, "a file without a hunk"},
		{"outside", good + "--- a/../x\n+++ b/../x\n@@ -0,0 +1 @@\n+a\n", 1, "outside"},
		{"absolute", good + "--- /dev/null\n+++ /tmp/agents-x\n@@ -0,0 +1 @@\n+a\n", 1, "outside"},
		{"git", good + "--- /dev/null\n+++ b/.git/hooks/pre-commit\n@@ -0,0 +1 @@\n+a\n", 1, ".git belongs to git"},
		{"strip too much", "--- f\n+++ f\n@@ -1 +1 @@\n-1\n+one\n", 2, "f has no 3 leading folders"},
		{"behind the end", good + "--- a/short\n+++ b/short\n@@ -1,0 +2 @@\n+b\n", 1, "would have no newline"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			for name, content := range files {
				b.write(name, content)
			}
			a := args{"patch": test.patch}
			if test.name == "strip too much" {
				a["strip"] = 3
			}
			b.fails("patch", a, test.status, test.want)
			b.has(files)
		})
	}
}
