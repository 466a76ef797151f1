package scaffold

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/prices"
	"github.com/agents-exe/agents/pkg/provider/openai"
)

// The table of prices says which models there are: a family is the models of a server whose
// names differ in digits, and the table is sorted by name.
func TestInitSuggestsTheNewestModels(t *testing.T) {
	family := strings.NewReplacer("0", "", "1", "", "2", "", "3", "", "4", "", "5", "", "6", "", "7", "", "8", "", "9", "", ".", "", "-", "").Replace
	for _, v := range vendors {
		if v.flavor == openai.OpenRouter { // openrouter/auto chooses one
			continue
		}
		u, err := url.Parse(v.flavor.URL())
		if err != nil {
			t.Fatal(err)
		}
		known, ok := prices.Lookup(nil, u.Host, v.model)
		if !ok {
			t.Errorf("%s: the table does not have %s", v.name, v.model)
			continue
		}
		for _, m := range prices.Builtin() {
			if m.Hosts[0] == known.Hosts[0] && family(m.Name) == family(known.Name) && m.Name > known.Name {
				t.Errorf("%s: %s is newer than %s", v.name, m.Name, v.model)
			}
		}
	}
}

func TestInitDoesNotListHundredsOfModels(t *testing.T) {
	stderr := &strings.Builder{}
	p := &program.Env{In: strings.NewReader("m777\n"), Err: stderr, InTerm: true, ErrTerm: true}
	var m ModelChoice
	for i := range 1000 {
		m.models = append(m.models, fmt.Sprintf("m%d", i))
	}
	m, err := chooseName(t.Context(), p, ModelFlags{}, m, ask.Terminal(p, false))
	if want := "note: the server has 1000 models, such as m0, m1, m2, m3, m4\nWhich model? [m0]: "; err != nil || m.Model != "m777" || stderr.String() != want {
		t.Errorf("chooseName = %q, %v; the person saw\n%s\nwant\n%s", m.Model, err, stderr, want)
	}
}

func TestWriteNewNeverOverwrites(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	const writers = 50
	texts := make([]string, writers)
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		texts[i] = strings.Repeat(strconv.Itoa(i)+" ", 10_000)
		wg.Go(func() { errs[i] = WriteNew(path, 0o640, texts[i]) })
	}
	wg.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won >= 0:
			t.Errorf("writers %d and %d both wrote the file", won, i)
		case err == nil:
			won = i
		case !errors.Is(err, os.ErrExist):
			t.Errorf("writer %d: %v, want %v", i, err, os.ErrExist)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || won < 0 || string(got) != texts[won] {
		t.Errorf("the file is not that of writer %d (%v)", won, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v (%v), want the file alone", entries, err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	if err := WriteNew(link, 0o600, "x"); !errors.Is(err, os.ErrExist) {
		t.Errorf("writeNew through a dangling link = %v, want %v", err, os.ErrExist)
	}
}

func TestSlugOf(t *testing.T) {
	for name, want := range map[string]string{
		"helper": "helper", "my agent": "my-agent", ".hidden": "hidden", "tmp.X_1": "tmp-X_1", "--x": "x",
		"": "other", "日本": "other", "Ü-bung": "bung", strings.Repeat("a", 80): strings.Repeat("a", 50),
	} {
		if got := SlugOf(name, "other"); got != want || !ValidSlug(got) {
			t.Errorf("slugOf(%q) = %q, want %q", name, got, want)
		}
	}
}
