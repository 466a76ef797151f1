package developer

import "strings"

// schema lists the arguments of all capabilities.
const schema = `{"type":"object","required":["capability"],"properties":{
"capability":{"type":"string","enum":"CAPABILITIES"},
"path":{"type":"string","description":"the file or folder"},
"ranges":{"type":"string","description":"lines, counted from 1: N, N-M, N+ (after line N), head, tail or whole; several are separated by commas. Without it read-file-range reads the whole file; write-file-range requires it"},
"contentBlocks":{"type":"array","items":{"type":"string"},"description":"write-file-range: the new lines of each range, in the order of ranges; an empty text deletes the lines"},
"content":{"type":"string","description":"write-file-range: the same for a single range"},
"expected_snapshot_ref":{"type":"string","description":"the call fails if the file is not equal to this snapshot"},
"session_id":{"type":"string","description":"an edit session: write-file-range adds edits to it, read-file-range reads what the file would be"},
"commit":{"type":"boolean","description":"write-file-range: false begins or continues an edit session, true writes its edits"},
"metadata_only":{"type":"boolean","description":"read-file-range: leave out the lines"},
"patch":{"type":"string","description":"patch-file: a unified diff of the file"},
"snapshot_ref":{"type":"string","description":"restore-file, restore-directory: the snapshot, from the result of an earlier call"},
"old_text":{"type":"string","description":"edit-text: what is replaced; it must occur exactly once"},
"new_text":{"type":"string","description":"edit-text: what replaces it"},
"pattern":{"type":"string","description":"search: a regular expression (RE2)"},
"name_patterns":{"type":"array","items":{"type":"string"},"description":"list-directory, search: patterns of file names, such as *.go"},
"recursive":{"type":"boolean","description":"list-directory: include folders below"},
"include_hidden":{"type":"boolean","description":"list-directory, search: include names that begin with a dot"},
"slug":{"type":"string","description":"scaffold-agent, scaffold-tool: the name of the new agent or tool"},
"template":{"type":"string","description":"scaffold-agent: the flavor of its model, such as openai, mistral or ollama"},
"language":{"type":"string","description":"scaffold-tool: bash, python or node"},
"force":{"type":"boolean","description":"scaffold-agent, scaffold-tool: replace an existing file"},
"spec_name":{"type":"string","description":"show-spec: bash-tools"}}}`

func helpOn(capability string) string {
	switch capability {
	case "read-file-range":
		return `Reads lines of a file, each as NUMBER, tab, text. Arguments: path, ranges, metadata_only, session_id.
{"capability": "read-file-range", "path": "main.go", "ranges": "1-40,90-120"}`
	case "write-file-range":
		return `Replaces, inserts or deletes lines. All ranges are lines of the file before the call. Arguments: path, ranges, contentBlocks (one for each range), expected_snapshot_ref.
Create a file or insert at its beginning with the range head, append with tail, overwrite with whole.
{"capability": "write-file-range", "path": "main.go", "ranges": "3,8-10,20+", "contentBlocks": ["line 3", "", "after line 20"]}
Edits over several calls: give expected_snapshot_ref and "commit": false, then session_id of the result with more edits, whose ranges are still lines of the file at the beginning, and at last "commit": true.`
	case "edit-text":
		return `Replaces a text that occurs exactly once. Arguments: path, old_text, new_text, expected_snapshot_ref.
{"capability": "edit-text", "path": "main.go", "old_text": "a := 1", "new_text": "a := 2"}`
	case "patch-file":
		return `Applies a unified diff of one file: all hunks, or none if a line is not as the diff expects. Arguments: path, patch, expected_snapshot_ref.
{"capability": "patch-file", "path": "main.go", "patch": "@@ -1,2 +1,2 @@\n package main\n-// old\n+// new\n"}`
	case "restore-file":
		return `Restores a file from a snapshot: a snapshotRef, beforeSnapshotRef or afterSnapshotRef of this run. Arguments: path, snapshot_ref.`
	case "search":
		return `Finds lines that a regular expression fits, in a file or below a folder. Arguments: path, pattern, name_patterns, include_hidden.
{"capability": "search", "path": ".", "pattern": "func main", "name_patterns": ["*.go"]}`
	case "list-directory":
		return `Lists a folder. Arguments: path, recursive, include_hidden, name_patterns.`
	case "traverse-directory":
		return `Lists everything below a folder, hidden files included. Argument: path.`
	case "snapshot-directory":
		return `Remembers all files below a folder for the time of this run, at most 64 MiB. Argument: path. The result has a snapshotRef.`
	case "restore-directory":
		return `Restores the files below a folder as they were at the snapshot; files that were created since are removed. Arguments: path, snapshot_ref.`
	case "scaffold-agent":
		return `Writes a new agent file from a template. Arguments: template, slug, path, force.`
	case "scaffold-tool":
		return `Writes a new executable from a template. Arguments: language, slug, path, force.`
	case "show-spec":
		return `Returns the specification of tools, bash-tools. Argument: spec_name.`
	case "validate-agent":
		return `Checks an agent file. Argument: path.`
	case "validate-tool":
		return `Executes a tool with "describe" and checks its description. Argument: path, the executable.`
	}
	return `Returns this text.`
}

// help describes the capabilities that the model may use.
func (b *box) help() string {
	var out strings.Builder
	for _, name := range b.o.Capabilities {
		out.WriteString(name + "\n" + helpOn(name) + "\n\n")
	}
	return strings.TrimSpace(out.String())
}
