// Command top-words is a tool: it counts how often each word occurs in a text.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/tool"
)

func main() {
	tool.Tool[arguments]{
		Name:        "top_words",
		Description: "Counts how often each word occurs in a text. The result is JSON: a list of the most frequent words with their counts, the most frequent first. Upper and lower case are the same.",
		Effects:     agent.EffectsNone,
		Timeout:     time.Minute,
		Examples:    []tool.Example{{Args: map[string]any{"text": "one two Two"}, Result: `"word":"two","count":2`}},
		Run:         run,
	}.Main()
}

// arguments are what the model can say.
type arguments struct {
	Count *int   `json:"count,omitempty" jsonschema:"how many words to show, 1 to 1000; 10 if it is left out"`
	Text  string `json:"text" tool:"stdin" jsonschema:"the text"`
}

func run(_ context.Context, args arguments) (string, error) {
	count := 10
	if args.Count != nil {
		count = *args.Count
	}
	if count < 1 || count > 1000 {
		return "", fmt.Errorf("count must be 1 to 1000, not %d", count)
	}
	words, err := topWords(strings.NewReader(args.Text), count)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(words)
	return string(text), err
}

// A word is one line of the result.
type word struct {
	Word  string `json:"word"`
	Count int    `json:"count"`
}

// topWords returns the n most frequent words of a text; those that are equally
// frequent are in alphabetical order.
func topWords(in io.Reader, n int) ([]word, error) {
	counts := map[string]int{}
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 1<<20) // the longest word
	scanner.Split(bufio.ScanWords)
	for scanner.Scan() {
		text := strings.TrimFunc(scanner.Text(), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if text != "" {
			counts[strings.ToLower(text)]++
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	words := make([]word, 0, len(counts))
	for text, count := range counts {
		words = append(words, word{text, count})
	}
	slices.SortFunc(words, func(a, b word) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Word, b.Word))
	})
	return words[:min(n, len(words))], nil
}
