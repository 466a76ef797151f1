package schema

import (
	"bytes"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The regular expressions of JSON Schema are those of ECMA-262, which differ from Go's in what
// \s and . match and in some escapes, and have look-aheads and references to groups. What
// differs is translated. Look-aheads at the beginning become patterns of their own; what else
// Go cannot express is not compared.

// A pattern matches a text that its last part matches, and its look-aheads.
type pattern struct {
	text  string
	ahead []ahead
	rest  *regexp.Regexp
}

type ahead struct {
	not bool
	re  *regexp.Regexp
}

func (p *pattern) String() string { return p.text }

func (p *pattern) MatchString(s string) bool {
	for _, a := range p.ahead {
		if a.re.MatchString(s) == a.not {
			return false
		}
	}
	return p.rest.MatchString(s)
}

// anyText is a pattern that cannot be expressed.
type anyText string

func (anyText) MatchString(string) bool { return true }
func (a anyText) String() string        { return string(a) }

func compileRegexp(s string) (jsonschema.Regexp, error) {
	p, err := compilePattern(s)
	if err != nil {
		return anyText(s), nil
	}
	return p, nil
}

func compilePattern(text string) (p *pattern, err error) {
	p = &pattern{text: text}
	rest, anchored := strings.CutPrefix(text, "^")
	for anchored && (strings.HasPrefix(rest, "(?=") || strings.HasPrefix(rest, "(?!")) {
		end := groupEnd(rest)
		if end < 0 {
			break
		}
		re, err := compileECMA("^(?:" + rest[3:end] + ")")
		if err != nil {
			return nil, err
		}
		p.ahead = append(p.ahead, ahead{not: rest[2] == '!', re: re})
		rest = rest[end+1:]
	}
	switch {
	case len(p.ahead) == 0:
		rest = text
	case hasAlternatives(rest), rest != "" && strings.ContainsAny(rest[:1], "*+?{"): // the look-aheads are part of the first, or optional
		return nil, errors.New("a look-ahead in one of several alternatives cannot be compared")
	default:
		rest = "^" + rest
	}
	p.rest, err = compileECMA(rest)
	return p, err
}

// walk calls f with the place of each character that is neither escaped nor in a class, until f
// returns false, and with the number of groups that are open there.
func walk(s string, f func(i, depth int) bool) {
	depth, class := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
			continue
		case class:
			class = c != ']'
			continue
		case c == '[':
			class = true
		case c == '(':
			depth++
		case c == ')':
			depth--
		}
		if !f(i, depth) {
			return
		}
	}
}

// groupEnd returns where the group at the beginning of s ends, -1 if it does not.
func groupEnd(s string) int {
	end := -1
	walk(s, func(i, depth int) bool {
		if depth == 0 {
			end = i
		}
		return depth > 0
	})
	return end
}

func hasAlternatives(s string) (found bool) {
	walk(s, func(i, depth int) bool {
		found = found || depth == 0 && s[i] == '|'
		return true
	})
	return found
}

// What \s matches, and what it does not, as in a class.
const (
	space    = `\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`
	notSpace = `\x{0}-\x{8}\x{e}-\x{1f}!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`
)

// compileECMA compiles a pattern without look-aheads.
func compileECMA(s string) (*regexp.Regexp, error) {
	var b strings.Builder
	class := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			text, n := escape(s[i+1:], class)
			b.WriteString(text)
			i += n
		case class && c == '[':
			b.WriteString(`\[`) // [:alpha:] is no class there
		case c == '[' && strings.HasPrefix(s[i:], "[^]"):
			b.WriteString(`[\x{0}-\x{10ffff}]`)
			i += 2
		case c == '[' && strings.HasPrefix(s[i:], "[]"):
			b.WriteString(`[^\x{0}-\x{10ffff}]`)
			i++
		case c == '.' && !class:
			b.WriteString(`[^\n\r\x{2028}\x{2029}]`)
		default:
			class = c == '[' || class && c != ']'
			b.WriteByte(c)
		}
	}
	return regexp.Compile(b.String())
}

// escape translates the escape whose text behind the backslash begins s, and returns how long
// that is.
func escape(s string, class bool) (text string, n int) {
	switch c := s[0]; {
	case c == 's' && class:
		return space, 1
	case c == 's':
		return "[" + space + "]", 1
	case c == 'S' && class:
		return notSpace, 1
	case c == 'S':
		return "[" + notSpace + "]", 1
	case c == 'b' && class:
		return `\x08`, 1
	case c == '0' && (len(s) == 1 || s[1] < '0' || s[1] > '9'):
		return `\x00`, 1
	case c == 'c' && len(s) > 1 && (s[1]|0x20) >= 'a' && (s[1]|0x20) <= 'z':
		return `\x{` + strconv.FormatInt(int64(s[1]&0x1f), 16) + "}", 2
	case strings.HasPrefix(s, "u{"):
		return `\x`, 1
	case c == 'u':
		r, ok := unit(s)
		if !ok {
			break
		}
		if low, ok := unit(strings.TrimPrefix(s[5:], `\`)); ok && len(s) > 5 && s[5] == '\\' && utf16.IsSurrogate(r) {
			return `\x{` + strconv.FormatInt(int64(utf16.DecodeRune(r, low)), 16) + "}", 11
		}
		return `\x{` + s[1:5] + "}", 5
	case c == 'p' || c == 'P':
		for _, property := range []string{"{Script=", "{sc=", "{General_Category=", "{gc="} {
			if strings.HasPrefix(s[1:], property) {
				return `\` + s[:1] + "{", 1 + len(property)
			}
		}
	}
	return `\` + s[:1], 1
}

// unit reads the code unit of an escape u0041.
func unit(s string) (rune, bool) {
	if len(s) < 5 || s[0] != 'u' {
		return 0, false
	}
	v, err := strconv.ParseUint(s[1:5], 16, 16)
	return rune(v), err == nil
}

// NotCompared returns the patterns in a schema that Go cannot express: they accept every text.
func NotCompared(doc []byte) (patterns []string) {
	if !bytes.Contains(doc, []byte(`"pattern"`)) {
		return nil
	}
	raw, err := decode(doc)
	if err != nil {
		return nil
	}
	var look func(v any)
	look = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				look(item)
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				text, ok := v[key].(string)
				if _, err := compilePattern(text); key == "pattern" && ok && err != nil {
					patterns = append(patterns, text)
				}
				look(v[key])
			}
		}
	}
	look(raw)
	return patterns
}
