package sessionindex

import "strings"

// The approximate size of a snippet, and of its part before the first match.
const snippetBytes, leadBytes = 200, 60

// snippet returns the first part of a text that has the most different matches close
// together. The time of SQLite's own snippet function grows with the square of the
// matches.
func snippet(marked string) []Piece {
	all := pieces(marked)
	start, end, most := 0, 0, 0
	matches, size := map[string]int{}, 0 // of all[from:i+1]
	from := 0
	for i, p := range all {
		if size += len(p.Text); !p.Match {
			continue
		}
		matches[strings.ToLower(p.Text)]++
		for ; from < i && (size > snippetBytes-leadBytes || !all[from].Match); from++ {
			size -= len(all[from].Text)
			if key := strings.ToLower(all[from].Text); all[from].Match {
				if matches[key]--; matches[key] == 0 {
					delete(matches, key)
				}
			}
		}
		if len(matches) > most {
			start, end, most = from, i+1, len(matches)
		}
	}
	var list []Piece
	if start > 0 {
		text := all[start-1].Text
		if cut := lastWords(text, leadBytes); start > 1 || cut != text {
			text = "…" + cut
		}
		list = append(list, Piece{Text: text})
	}
	size = 0
	for _, p := range all[start:end] {
		size += len(p.Text)
	}
	for ; end < len(all) && size+len(all[end].Text) <= snippetBytes; end++ {
		size += len(all[end].Text)
	}
	list = append(list, all[start:end]...)
	if end < len(all) {
		text := ""
		if !all[end].Match {
			text = firstWords(all[end].Text, max(snippetBytes-size, 0))
		}
		list = append(list, Piece{Text: text + "…"})
	}
	return list
}

// firstWords returns at most n bytes from the beginning of a text, up to a space if
// there is one.
func firstWords(text string, n int) string {
	if len(text) <= n {
		return text
	}
	if i := strings.LastIndexByte(text[:n], ' '); i > 0 {
		n = i
	}
	return strings.ToValidUTF8(text[:n], "")
}

// lastWords returns at most n bytes from the end of a text, from a space if there is
// one.
func lastWords(text string, n int) string {
	if len(text) <= n {
		return text
	}
	text = text[len(text)-n:]
	return strings.ToValidUTF8(text[max(strings.IndexByte(text, ' '), 0):], "")
}

func pieces(marked string) []Piece {
	var list []Piece
	for i, s := range strings.Split(marked, startMark) {
		found, rest, ok := strings.Cut(s, endMark)
		if i == 0 || !ok {
			found, rest = "", s
		}
		if found != "" {
			list = append(list, Piece{found, true})
		}
		if rest != "" {
			list = append(list, Piece{Text: rest})
		}
	}
	return list
}
