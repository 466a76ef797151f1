// Package tools holds the tools that ship with the project, for copies by
// `agents new tool --from` and for copied agents.
package tools

import "embed"

// Files are the tools, and in lib the modules of those in Python.
//
//go:embed ask-user bash date edit-file fetch-url git-diff git-log git-status grep list-files notify patch
//go:embed read-file recall remember sqlite write-file lib/*.py
var Files embed.FS
