// Package webpage has what the pages of this program share: their style, and the functions
// that show messages, Markdown and calls.
package webpage

import (
	_ "embed"
)

// Style is the style of every page.
//
//go:embed style.css
var Style string

// Script begins the script of every page.
//
//go:embed text.js
var Script string
