package unparsed

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
)

// A format describes how calls begin and end in a text. The part in between is parsed the
// same way for all formats, see [reader.calls]. The end may be missing, because it is
// often the stop token of the model.
type format struct {
	begin, end string
	// quote is a token that encloses strings in place of quotes.
	quote string
	// open: begin is part of the call.
	open bool
	// bare: begin also occurs in ordinary text. Calls count only if they begin a line,
	// end the answer, and have arguments that the tool has.
	bare bool
}

// formats lists the known formats and the models that use them. Of two formats with a
// common prefix, the longer one comes first.
var formats = []format{
	{begin: "<tool_call>", end: "</tool_call>"},                 // Hermes, Qwen, Granite 3.1 and 4, GLM, Ernie, Step 3.5, Laguna
	{begin: "<tool_calls>", end: "</tool_calls>"},               // Jamba, Hunyuan, MiniMax M1
	{begin: "<function_calls>", end: "</function_calls>"},       // Olmo 3
	{begin: "<function_call>", end: "</function_call>"},         // Granite 20B
	{begin: "<minimax:tool_call>", end: "</minimax:tool_call>"}, // MiniMax M2
	{begin: "]<]minimax[>[<tool_call>", end: "]<]minimax[>[</tool_call>"},
	{begin: "<seed:tool_call>", end: "</seed:tool_call>"},         // Seed OSS
	{begin: "<longcat_tool_call>", end: "</longcat_tool_call>"},   // LongCat
	{begin: "<dots_function_call>", end: "</dots_function_call>"}, // dots
	{begin: "<|tool_call:start|>", end: "<|tool_call:end|>"},      // Solar
	{begin: "<|tool_call_start|>", end: "<|tool_call_end|>"},      // LFM2
	{begin: "<|tool_call_begin|>", end: "<|tool_call_end|>"},      // Kimi K2
	{begin: "<|tool_calls_section_begin|>", end: "<|tool_calls_section_end|>"},
	{begin: "<|tool_call_section_begin|>", end: "<|tool_call_section_end|>"},
	{begin: "<|open|>tools<|sep|>", end: "<|close|>tools<|sep|>"},                   // Kimi K3
	{begin: "<|tool_call|>", end: "<|/tool_call|>"},                                 // Granite 3.0, Phi 4
	{begin: "<|tool_call>", end: "<tool_call|>", quote: `<|"|>`},                    // Gemma 4
	{begin: "<start_function_call>", end: "<end_function_call>", quote: "<escape>"}, // FunctionGemma
	{begin: "<｜tool▁calls▁begin｜>", end: "<｜tool▁calls▁end｜>"},                      // DeepSeek V3, R1, V3.1
	{begin: "<｜tool▁call▁begin｜>", end: "<｜tool▁call▁end｜>"},
	{begin: "<｜tool_calls_begin｜>", end: "<｜tool_calls_end｜>"}, // Step 3
	{begin: "<｜tool_call_begin｜>", end: "<｜tool_call_end｜>"},
	{begin: "<｜DSML｜function_calls>", end: "</｜DSML｜function_calls>"}, // DeepSeek V3.2
	{begin: "<｜DSML｜tool_calls>", end: "</｜DSML｜tool_calls>"},         // DeepSeek V4
	{begin: "<|action_start|><|plugin|>", end: "<|action_end|>"},      // InternLM
	{begin: "<|action_start|> <|plugin|>", end: "<|action_end|>"},
	{begin: "<|python_start|>", end: "<|python_end|>"},   // Llama 4
	{begin: "<|python_tag|>"},                            // Llama 3
	{begin: "<|tools_prefix|>", end: "<|tools_suffix|>"}, // Apertus
	{begin: "<|START_ACTION|>", end: "<|END_ACTION|>"},   // Command
	{begin: "<TOOLCALL>", end: "</TOOLCALL>"},            // Nemotron
	{begin: "[TOOL_CALLS]"},                              // Mistral
	{begin: "[unused11]", end: "[unused12]"},             // Pangu
	{begin: "functools["},                                // Phi 4 mini
	{begin: "function call<|role_sep|>"},                 // GigaChat 3
	{begin: "-> tool/function_call"},                     // HyperCLOVA X
	{begin: "<|channel|>commentary to=", end: "<|call|>"},
	{begin: "<|channel|>analysis to=", end: "<|call|>"}, // gpt-oss (harmony)
	{begin: "<|start|>assistant to=", end: "<|call|>"},
	{begin: "commentary to=", end: "<|call|>"}, // without its special tokens
	{begin: "<function", open: true},           // Llama 3.1, MiniCPM, Qwen 3 Coder without <tool_call>
	{begin: "```", end: "```", bare: true},     // xLAM, Gemma 3 and many small models
	{begin: "{", open: true, bare: true},       // Llama 3
	{begin: "[", open: true, bare: true},       // xLAM, Llama 3.2 (pythonic)
}

// fences are the languages of code blocks that may contain calls.
var fences = []string{"", "json", "xml", "python", "tool_call", "tool_calls", "tool_code"}

// skipped are the delimiters of text that contains no calls.
var skipped = [][2]string{{"<think>", "</think>"}, {"[THINK]", "[/THINK]"}, {"```", "\n```"}, {"`", "`"}}

// tokens are special tokens that are removed from the text around calls.
var tokens = []string{"<|eom_id|>", "<|eot_id|>", "<|im_end|>", "<|end_of_text|>", "<|end_of_role|>", "<|message_sep|>", "</s>", "<|end|>",
	"<|start|>assistant", "<|channel|>analysis<|message|>", "<|channel|>commentary<|message|>", "<|channel|>final<|message|>", "<response>", "</response>",
	"<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>", "<|call|>", "[/TOOL_CALLS]", "</function_call>"}

var withoutTokens = sync.OnceValue(func() *strings.Replacer {
	var pairs []string
	for _, t := range tokens {
		pairs = append(pairs, t, "")
	}
	return strings.NewReplacer(pairs...)
})

// starts are the first bytes of all formats and skipped texts.
const starts = "<[{`]fc-"

// undecided is the distance from the end of a growing text within which a candidate may
// still be incomplete: no marker is longer.
const undecided = 64

// maxNested limits the nesting of formats and of lists of calls, maxTries the attempts to parse
// a call in one answer, and maxWork and workPerByte the bytes that all attempts read, beyond
// minWork: each attempt may read to the end. maxCall limits the text in which one attempt is
// made.
const (
	maxNested   = 4
	maxTries    = 1000
	minWork     = 1 << 20
	maxWork     = 64 << 20
	workPerByte = 8
	maxCall     = 16 << 20
)

// A finder splits a text, which may grow, into calls and the rest.
type finder struct {
	tools offered
	text  string
	pos   int    // text[:pos] is done
	until string // ends the skipped text that pos is in
	tries int
	work  int // bytes that were looked at in attempts
	done  <-chan struct{}
	wait  int // the length that text must have before the next attempt
	calls []agent.ToolCall
	rest  strings.Builder
}

// remaining returns the text without the calls.
func (f *finder) remaining() string {
	if len(f.calls) == 0 {
		return f.text
	}
	return strings.TrimSpace(withoutTokens().Replace(f.rest.String()))
}

// ended reports whether the run has ended, so that nobody waits for the answer.
func (f *finder) ended() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// read splits the text as far as possible. final says that it will not grow.
func (f *finder) read(final bool) {
	if !final && len(f.text) < f.wait {
		return
	}
	for f.pos < len(f.text) && !f.ended() {
		n := 0
		if f.until != "" {
			n = f.endOfSkipped(final)
		} else if i := strings.IndexAny(f.text[f.pos:], starts); i != 0 {
			n = i
			if i < 0 {
				n = len(f.text) - f.pos
			}
		} else {
			n = f.candidate(final)
		}
		if n < 0 { // a call arrives in many pieces: retry less often as it grows
			f.wait = len(f.text) + (len(f.text)-f.pos)/4
			return
		}
		f.rest.WriteString(f.text[f.pos : f.pos+n])
		f.pos += n
	}
}

// endOfSkipped returns how much of the text is skipped.
func (f *finder) endOfSkipped(final bool) int {
	text := f.text[f.pos:]
	if i := strings.Index(text, f.until); i >= 0 {
		n := i + len(f.until)
		f.until = ""
		return n
	}
	if final {
		return len(text)
	}
	n := max(len(text)-len(f.until), 0)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	if n > 0 {
		return n
	}
	return -1
}

// candidate tries to parse a call at pos and passes over it. Otherwise it returns how much
// of the text is not a call, or -1 if more text is needed.
func (f *finder) candidate(final bool) int {
	text := f.text[f.pos:]
	if !quoted(f.text[:f.pos]) {
		form, partial := formatAt(text)
		if partial && !final {
			return -1
		}
		if form != nil && (!form.bare || startsLine(f.text[:f.pos])) && f.mayTry(len(text)) {
			f.tries++
			r := &reader{s: text, tools: f.tools}
			calls := r.block(form, 0)
			if form.bare {
				calls = r.last(calls)
			}
			f.work += max(r.far, r.i)
			switch {
			case !final && len(text)-r.far < undecided:
				return -1
			case calls != nil:
				f.calls = append(f.calls, calls...)
				f.pos += r.i
				return 0
			}
		}
	}
	for _, s := range skipped {
		if after, ok := strings.CutPrefix(text, s[0]); ok {
			if s[0] == "`" {
				end := strings.IndexAny(after, "`\n")
				if end < 0 && !final {
					return -1
				}
				if end < 0 || after[end] == '\n' {
					break
				}
			}
			f.until = s[1]
			return len(s[0])
		}
	}
	return 1
}

// mayTry reports whether the limits permit an attempt in a text of so many bytes.
func (f *finder) mayTry(n int) bool {
	return f.tries < maxTries && n <= maxCall && f.work <= min(max(workPerByte*len(f.text), minWork), maxWork)
}

// formatAt returns the format that a text begins with. partial reports whether the text
// is a prefix of a marker.
func formatAt(text string) (form *format, partial bool) {
	for i := range formats {
		f := &formats[i]
		if !strings.HasPrefix(text, f.begin) {
			partial = partial || strings.HasPrefix(f.begin, text)
			continue
		}
		if f.begin == "```" {
			lang, _, whole := strings.Cut(text[len(f.begin):min(len(text), undecided)], "\n")
			if !whole {
				return nil, len(lang) < len("tool_calls\r")
			}
			if !slices.Contains(fences, strings.TrimSpace(lang)) {
				return nil, false
			}
			return &format{begin: f.begin + lang + "\n", end: f.end, bare: true}, false
		}
		return f, partial
	}
	return nil, partial || slices.ContainsFunc(skipped, func(s [2]string) bool { return strings.HasPrefix(s[0], text) && s[0] != text })
}

func quoted(before string) bool {
	for _, mark := range []string{`"`, "'", "`", "“", "‘", "«"} {
		if strings.HasSuffix(before, mark) {
			return true
		}
	}
	blank := func(r rune) bool { return r != '\n' && unicode.IsSpace(r) }
	line, found := strings.CutSuffix(strings.TrimRightFunc(before, blank), ">")
	line = strings.TrimRightFunc(line, blank)
	return found && (line == "" || strings.HasSuffix(line, "\n"))
}

// startsLine reports whether the text after before begins a line, or follows a token.
func startsLine(before string) bool {
	before = strings.TrimRight(before, " \t")
	return before == "" || strings.HasSuffix(before, "\n") || strings.HasSuffix(before, ">")
}
