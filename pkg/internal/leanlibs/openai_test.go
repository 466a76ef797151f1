package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInitFunctionsAreRemoved(t *testing.T) {
	const source = `package p

import (
	"reflect"

	"github.com/openai/openai-go/v3/internal/apijson"
	"github.com/openai/openai-go/v3/shared"
)

type T struct{ a shared.X }

// why
func init() {
	apijson.RegisterUnion[T]("type", apijson.Discriminator[T]("a"))
	apijson.RegisterFieldValidator[T]("x", "y")
	apijson.RegisterDiscriminatedUnion[T]("k", map[string]reflect.Type{"t": reflect.TypeOf(shared.X{})})
}

func f() {}
`
	const want = `package p

import (
	

	
	"github.com/openai/openai-go/v3/shared"
)

type T struct{ a shared.X }

// why


func f() {}
`
	got, n, err := withoutInits("p.go", []byte(source))
	if err != nil || n != 1 || string(got) != want {
		t.Errorf("withoutInits = %q, %d, %v\nwant %q, 1", got, n, err, want)
	}
	for name, body := range map[string]string{
		"another call":        `apijson.Other("x")`,
		"of another package":  `other.RegisterUnion[T]("x")`,
		"something else":      `x := 1; _ = x`,
		"after what is known": `apijson.RegisterUnion[T]("x"); go f()`,
	} {
		_, _, err := withoutInits("p.go", []byte("package p\n\nfunc init() { "+body+" }\n"))
		if want := "p.go:3:1: an init function that the patch does not know"; err == nil || err.Error() != want {
			t.Errorf("%s: withoutInits = %v, want %s", name, err, want)
		}
	}
	if err := patchOpenAI(t.TempDir()); err == nil || !strings.Contains(err.Error(), "the patch can go") {
		t.Errorf("patch of a library without init functions = %v, want that it can go", err)
	}
}

func TestUsesThatMayDecodeAreRefused(t *testing.T) {
	const head = `package p

import (
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

`
	for _, c := range []struct{ name, text, want string }{
		{"requests", head + "var x, y = openai.Client{}, option.WithAPIKey\n", ""},
		{"an answer", head + "var x openai.ChatCompletion\n", "p.go:8:7: openai.ChatCompletion may decode"},
		{"another package", "package p\n\nimport \"github.com/openai/openai-go/v3/responses\"\n", "p.go:3:8: github.com/openai/openai-go/v3/responses may decode"},
		{"another name", "package p\n\nimport ai \"github.com/openai/openai-go/v3\"\n\nvar x ai.ChatCompletion\n", "p.go:5:7: ai.ChatCompletion may decode"},
		{"no use", "package p\n\nvar x openai.ChatCompletion\n", ""},
	} {
		file := filepath.Join(t.TempDir(), "p.go")
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		err := checkFile(file)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: checkFile = %v, want %q", c.name, err, c.want)
		}
	}
	if err := checkUse(); err != nil {
		t.Error(err)
	}
}
