package markdown

import "strings"

// What a line begins with.

func isBlank(s string) bool { return strings.TrimSpace(s) == "" }

func indentOf(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }

// expandTabs replaces the tabs that a line begins with.
func expandTabs(s string) string {
	body := strings.TrimLeft(s, " \t")
	if !strings.Contains(s[:len(s)-len(body)], "\t") {
		return s
	}
	n := 0
	for _, c := range s[:len(s)-len(body)] {
		if n++; c == '\t' {
			n += (4 - n%4) % 4
		}
	}
	return strings.Repeat(" ", n) + body
}

func expandAll(s string) string { return strings.ReplaceAll(s, "\t", "    ") }

// trimLines removes the indentation of the lines of a paragraph, and blanks at its end.
func trimLines(lines []string) []string {
	var list []string
	for i, l := range lines {
		l = strings.TrimLeft(l, " \t")
		if i == len(lines)-1 {
			l = strings.TrimRight(l, " \t")
		}
		list = append(list, l)
	}
	return list
}

func cutQuote(s string) (rest string, ok bool) {
	n := indentOf(s)
	if n > 3 || n == len(s) || s[n] != '>' {
		return s, false
	}
	rest = expandTabs(s[n+1:])
	return strings.TrimPrefix(rest, " "), true
}

func item(s string) (c container, rest string, ok bool) {
	n := indentOf(s)
	i := n
	for i < len(s) && i-n < 9 && s[i] >= '0' && s[i] <= '9' {
		c.number = c.number*10 + int(s[i]-'0')
		i++
	}
	if i == len(s) || n > 3 {
		return c, s, false
	}
	c.kind = s[i]
	if i > n && !ordered(c.kind) || i == n && !strings.ContainsRune("-*+", rune(c.kind)) {
		return c, s, false
	}
	i++
	body := expandTabs(s[i:])
	spaces := indentOf(body)
	switch {
	case body == "":
		c.offset = i + 1
		return c, "", true
	case spaces == 0:
		return c, s, false
	case spaces > 4 || isBlank(body):
		spaces = 1 // code in the item
	}
	c.offset = i + spaces
	return c, body[spaces:], true
}

func ordered(kind byte) bool { return kind == '.' || kind == ')' }

// headingLevel is that of a heading that begins with #; 0 for other lines.
func headingLevel(s string) int {
	n := len(s) - len(strings.TrimLeft(s, "#"))
	if n < 1 || n > 6 || n < len(s) && s[n] != ' ' && s[n] != '\t' {
		return 0
	}
	return n
}

func trimHashes(s string) string {
	s = strings.TrimSpace(s)
	if t := strings.TrimRight(s, "#"); t == "" || strings.HasSuffix(t, " ") {
		return strings.TrimSpace(t)
	}
	return s
}

// setext is the level of a heading that a line underlines; 0 for other lines.
func setext(s string) int {
	t := strings.TrimSpace(s)
	switch {
	case t == "" || indentOf(s) > 3:
		return 0
	case strings.Trim(t, "=") == "":
		return 1
	case strings.Trim(t, "-") == "":
		return 2
	}
	return 0
}

// isRule reports whether a line is a thematic break.
func isRule(s string) bool {
	t := strings.Join(strings.Fields(s), "")
	return indentOf(s) < 4 && len(t) >= 3 && strings.ContainsRune("-*_", rune(t[0])) && strings.Trim(t, t[:1]) == ""
}

// isFence returns the fence of code that a line begins with.
func isFence(s string) string {
	n := indentOf(s)
	if n > 3 || n == len(s) || s[n] != '`' && s[n] != '~' {
		return ""
	}
	rest := strings.TrimLeft(s[n:], s[n:n+1])
	fence := s[n : len(s)-len(rest)]
	if len(fence) < 3 || fence[0] == '`' && strings.Contains(rest, "`") {
		return ""
	}
	return fence
}
