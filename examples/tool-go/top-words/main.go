// Command top-words is a tool: it counts how often each word occurs in a text.
package main

import (
	"bufio"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
)

//go:embed description.json
var description string

// errUsage is wrapped by errors in the command line.
var errUsage = errors.New("usage: top-words describe | run [--count=N] <TEXT")

func main() {
	// What goes wrong is said on stderr; the model sees it with the exit code.
	err := answer(os.Args[1:], os.Stdin, os.Stdout)
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "top_words:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "top_words:", err)
		os.Exit(1)
	}
}

func answer(args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	switch args[0] {
	case "describe":
		_, err := io.WriteString(out, description)
		return err
	case "run":
		return run(args[1:], in, out)
	default:
		return errUsage
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	count := flags.Int("count", 10, "how many words to show")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%w: unknown argument %s", errUsage, flags.Arg(0))
	}
	if *count < 1 || *count > 1000 {
		return fmt.Errorf("%w: count must be 1 to 1000, not %d", errUsage, *count)
	}
	words, err := topWords(in, *count)
	if err != nil {
		return fmt.Errorf("read the text: %w", err)
	}
	return json.NewEncoder(out).Encode(words)
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
