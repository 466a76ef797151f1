package load

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agentfile"
	"github.com/agents-exe/agents/pkg/config"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
	"github.com/agents-exe/agents/pkg/source/exectool"
)

// Files that a person did not name, but that were found through a cfg file or in the
// working directory, may be a stranger's. They are parsed only after the person has trusted
// them. A Trust in the state folder records what the tree consisted of at that time;
// anything that differs must be trusted again.

// EnvTrust is the variable with which named files need trust too.
const EnvTrust = "AGENTS_TRUST"

// A Trust is an agent file with its tree, or a cfg file, that a person has trusted.
type Trust struct {
	Path string          `json:"path"` // without links
	Tree *agentfile.Lock `json:"tree"` // nil if it is not trusted any more
	// Keys are the digests, by path, of the keys files that were found beside it or in a working
	// directory: whoever wrote such a file can read the prompts that are sent with its keys.
	Keys map[string]string `json:"keys,omitempty"`
	// Folder is the folder in which what this person changes stays trusted: see own. "" is none.
	Folder string `json:"folder,omitempty"`
	// Moves is the last line of the log of the commits that were checked out in the folder's
	// repository, and Time when t was kept.
	Moves string `json:"moves,omitempty"`
	// Touched says that a run was going on when the tree changed.
	Touched bool      `json:"touched,omitempty"`
	Time    time.Time `json:"time"`
	// Texts are the contents of files, by their digests, to show what has changed.
	Texts map[string]string `json:"texts,omitempty"`
}

// Changes lists how now differs from t, a line or more each. A keys file that is no
// longer in effect does not count.
func (t *Trust) Changes(now *Trust) []string {
	list := t.Tree.Difference(now.Tree, func(digest string) string { return cmp.Or(t.Texts[digest], now.Texts[digest]) })
	for path, digest := range now.Keys {
		if was := t.Keys[path]; was != digest {
			list = append(list, map[bool]string{true: "added", false: "changed"}[was == ""]+": keys "+path)
		}
	}
	return list
}

// addKeys adds the keys file in effect, if it was found in a project.
func (t *Trust) addKeys(choice config.KeysChoice) {
	if choice.InProject {
		t.Keys = map[string]string{realPath(choice.Path): exectool.Digest(choice.Path)}
	}
}

// checkKeys returns an error if the keys file in effect was found in a project, and is not
// the one that was trusted together with the agent file.
func checkKeys(p *program.Env, file string, choice config.KeysChoice) error {
	was := Trusted(p, file)
	if was == nil { // the trust was just removed
		return errUntrusted(p, file)
	}
	now := &Trust{Tree: was.Tree}
	if now.addKeys(choice); len(was.Changes(now)) > 0 {
		return failure.NothingRan(distrust{&agentfile.DriftError{File: program.Shown(file), Against: "what was trusted", Changes: was.Changes(now)}}, trustHint(p))
	}
	return nil
}

func trustHint(p *program.Env) string {
	command := "agents trust"
	if strict, _ := strictTrust(p); strict {
		for _, file := range p.Global.AgentFiles {
			command += " --agent-file " + program.ShellQuote(file)
		}
	}
	return "`" + command + "` shows what it runs, and asks"
}

// TrustDir is the folder with the records of trusted files; "" if there is no state folder.
func TrustDir(p *program.Env) string { return program.In(p.StateDir(), "trust") }

// realPath returns path absolute, with links resolved if it exists.
func realPath(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real
	}
	return abs
}

func trustFile(p *program.Env, path string) string {
	sum := sha256.Sum256([]byte(realPath(path)))
	return filepath.Join(TrustDir(p), hex.EncodeToString(sum[:16])+".json")
}

// Trusted returns the Trust of the file at path, nil if it is not trusted.
func Trusted(p *program.Env, path string) *Trust {
	if TrustDir(p) == "" {
		return nil
	}
	t, err := readTrust(trustFile(p, path))
	if err != nil || t.Path != realPath(path) {
		return nil
	}
	return t
}

func readTrust(file string) (*Trust, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	t := &Trust{}
	if err := json.Unmarshal(data, t); err != nil || t.Tree == nil {
		return nil, fmt.Errorf("%s is damaged", file)
	}
	return t, nil
}

// ListTrusted returns all trusted files, sorted by path.
func ListTrusted(p *program.Env) []*Trust {
	if TrustDir(p) == "" {
		return nil
	}
	files, _ := filepath.Glob(filepath.Join(TrustDir(p), "*.json")) // the pattern is valid
	var list []*Trust
	for _, file := range files {
		if t, err := readTrust(file); err == nil {
			list = append(list, t)
		}
	}
	slices.SortStableFunc(list, func(a, b *Trust) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// Keep stores that the person trusts t, with the keys files that were trusted before. A
// tree with a file that cannot be read is not trusted.
func (t *Trust) Keep(p *program.Env) error {
	if TrustDir(p) == "" {
		return errors.New("there is no home folder to note it in")
	}
	if t.Tree != nil {
		if err := t.Tree.Readable(); err != nil {
			return err
		}
		if was := Trusted(p, t.Path); was != nil {
			t.Folder = cmp.Or(t.Folder, was.Folder)
			keys := maps.Clone(was.Keys)
			if keys == nil {
				keys = map[string]string{}
			}
			maps.Copy(keys, t.Keys)
			t.Keys = keys
		}
	}
	t.Time, t.Moves = time.Now(), moves(t.Folder)
	t.read()
	return t.write(p)
}

func (t *Trust) write(p *program.Env) error {
	text, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	return wholefile.Write(trustFile(p, t.Path), append(text, '\n'))
}

// Distrust stores that the file at path is no longer trusted, so that a session that
// used it does not use it again. It reports whether the file was trusted.
func Distrust(p *program.Env, path string) (bool, error) {
	if Trusted(p, path) == nil {
		return false, nil
	}
	return true, (&Trust{Path: realPath(path)}).Keep(p)
}

// noted reports whether the file at path is trusted, or was.
func noted(p *program.Env, path string) bool {
	if TrustDir(p) == "" {
		return false
	}
	_, err := os.Stat(trustFile(p, path))
	return err == nil
}

// SurveyFile returns what the agent file at path would run now, with its tree. Nothing
// is executed.
func SurveyFile(p *program.Env, path string) (*agentfile.Tree, *Trust) {
	tree, lock := agentfile.Survey(path, agentfile.Options{Environ: p.Environ})
	t := &Trust{Path: realPath(path), Tree: lock}
	if c, err := configOf(p, func(string, []byte) error { return nil }, []string{path}); err == nil {
		t.addKeys(c.KeysFile(path))
	}
	t.read()
	return tree, t
}

// path returns the file of a name in Tree.Files.
func (t *Trust) path(name string) string {
	if name = filepath.FromSlash(name); filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(t.Path), name)
}

func (t *Trust) read() {
	if t.Tree == nil {
		t.Texts = nil
		return
	}
	const most, all = 32 << 10, 512 << 10
	texts, n := map[string]string{}, 0
	for name, f := range t.Tree.Files {
		text, _, err := config.ReadRegular(t.path(name), most)
		if err != nil || n+len(text) > all || !utf8.Valid(text) {
			continue
		}
		if sum := sha256.Sum256(text); exectool.DigestSum(sum[:]) == f.Digest {
			texts[f.Digest] = string(text)
			n += len(text)
		}
	}
	t.Texts = texts
}

func (t *Trust) addPolicies(c *config.Config) {
	for _, path := range c.File.Policies {
		t.Tree.Files[path] = agentfile.LockedFile{Kind: agentfile.KindPolicy, Digest: exectool.Digest(path)}
	}
}

// checkPolicies returns an error if an external policy of the cfg file is not the one
// that was trusted.
func checkPolicies(p *program.Env, c *config.Config) error {
	if len(c.File.Policies) == 0 {
		return nil
	}
	was := Trusted(p, c.File.Path)
	if was == nil { // since a moment ago
		return errUntrusted(p, c.File.Path)
	}
	now := &Trust{Tree: &agentfile.Lock{Files: maps.Clone(was.Tree.Files)}}
	now.addPolicies(c)
	if changes := was.Tree.Difference(now.Tree, nil); len(changes) > 0 {
		return failure.NothingRan(distrust{&agentfile.DriftError{File: program.Shown(c.File.Path), Against: "what was trusted", Changes: changes}}, trustHint(p))
	}
	return nil
}

// SurveyConfig returns the Trust of a cfg file with the given contents.
func SurveyConfig(path string, text []byte) *Trust {
	sum := sha256.Sum256(text)
	file := agentfile.LockedFile{Kind: "cfg", Digest: exectool.DigestSum(sum[:])}
	return &Trust{Path: realPath(path), Tree: &agentfile.Lock{Files: map[string]agentfile.LockedFile{filepath.Base(path): file}}}
}

// NoteOwn trusts an agent file whose tree this person has just written, so that it is used
// in its folder without being named, and stays trusted when this person changes it.
func NoteOwn(p *program.Env, file string) {
	_, t := SurveyFile(p, file)
	t.Folder = filepath.Dir(t.Path)
	_ = t.Keep(p) // otherwise the person names it, or is asked
}

// Changing is called before this program changes the tree of the agent file at path. If the
// tree is trusted and unchanged, the function that it returns trusts the changed tree.
func Changing(p *program.Env, path string) (changed func()) {
	was := renewed(p, path)
	if was == nil {
		return func() {}
	}
	if _, now := SurveyFile(p, path); len(was.Changes(now)) > 0 {
		return func() {}
	}
	return func() {
		_, now := SurveyFile(p, path)
		_ = now.Keep(p) // otherwise the person is asked
	}
}

// strictTrust reports whether files that are named need trust too.
func strictTrust(p *program.Env) (bool, error) {
	switch value := p.Getenv(EnvTrust); value {
	case "", "locked":
		return false, nil
	case "strict":
		return true, nil
	default:
		return false, failure.Usage("", "%s is %q; want strict, locked, or nothing", EnvTrust, value)
	}
}

func errUntrusted(p *program.Env, path string) error {
	return failure.NothingRan(distrust{fmt.Errorf("%s is not trusted: nobody has looked at what it runs", program.Shown(path))}, trustHint(p))
}

// checkText returns an error if the file at path has contents that were not trusted.
func checkText(p *program.Env, path, kind string, text []byte) error {
	t, name := Trusted(p, path), filepath.Base(path)
	if t == nil {
		return errUntrusted(p, path)
	}
	now := SurveyConfig(path, text)
	digest := now.Tree.Files[name].Digest
	if t.Tree.Files[name].Digest != digest {
		if kind == agentfile.KindAgent {
			t = renewed(p, path)
		} else if now.addRest(t); t.own(p, now) && now.Keep(p) == nil {
			t = now
		}
	}
	if t.Tree.Files[name].Digest != digest {
		drift := &agentfile.DriftError{File: program.Shown(path), Against: "what was trusted", Changes: []string{"changed: " + kind + " " + filepath.Base(path)}}
		return failure.NothingRan(distrust{drift}, trustHint(p))
	}
	return nil
}

// addRest adds the files of was that t does not name.
func (t *Trust) addRest(was *Trust) {
	for name, f := range was.Tree.Files {
		if _, known := t.Tree.Files[name]; !known {
			t.Tree.Files[name] = f
		}
	}
}

// CheckRoot returns an error if f is ambiguous, or needs trust and its own contents were not
// trusted. It is not interpreted.
func CheckRoot(p *program.Env, f config.AgentFile) error {
	if err := ambiguous(f); err != nil {
		return err
	}
	strict, err := strictTrust(p)
	if err != nil || !strict && !f.Discovered || !f.Found {
		return err
	}
	text, _, err := config.ReadRegular(f.Path, agentfile.MaxBytes)
	if err != nil {
		return nil // the code that reads the file reports the error
	}
	return checkText(p, f.Path, agentfile.KindAgent, text)
}

// trusted returns what the tree of the agent file must consist of; nil for no requirement.
func trusted(p *program.Env, c *config.Config, file string, o Options) (*agentfile.Lock, error) {
	need := o.File != "" && noted(p, file) // a session leads to what was found once
	for _, f := range c.AgentFiles {
		need = need || f.Discovered && program.Shown(f.Path) == file
	}
	return TrustedTree(p, file, need)
}

// TrustedTree returns what the tree of the agent file must consist of; nil for no
// requirement, if need is false and AGENTS_TRUST is not strict.
func TrustedTree(p *program.Env, file string, need bool) (*agentfile.Lock, error) {
	strict, err := strictTrust(p)
	if err != nil {
		return nil, err
	}
	if !strict && !need {
		_ = renewed(p, file) // what is own is noted before its tools run
		return nil, nil
	}
	if t := renewed(p, file); t != nil {
		return t.Tree, nil
	}
	return nil, errUntrusted(p, file)
}

// Below reports whether the file at path is in dir or a folder below it.
func Below(dir, path string) bool {
	rel, err := filepath.Rel(realPath(dir), realPath(path))
	return err == nil && filepath.IsLocal(rel)
}

// addOwn adds the agents of the working directory to a configuration that names none: agent.json
// if it was trusted once, or else the files that this person had init or new write there.
func addOwn(p *program.Env, c *config.Config) {
	if slices.ContainsFunc(c.AgentFiles, func(f config.AgentFile) bool { return f.Named }) || TrustDir(p) == "" {
		return
	}
	f := Here()
	var own []config.AgentFile
	if f.Found && (Trusted(p, f.Path) != nil || f.Other != "" && Trusted(p, f.Other) != nil) {
		own = append(own, f)
	} else {
		entries, _ := os.ReadDir(".") // what cannot be read has no agents
		for _, e := range entries {
			if !jsondoc.HasName(e.Name()) || !e.Type().IsRegular() {
				continue
			}
			if t := Trusted(p, e.Name()); t != nil && t.Folder == filepath.Dir(t.Path) {
				place := config.Place{Path: filepath.Join(filepath.Dir(f.Path), e.Name()), Why: "written in the working directory", Found: true}
				own = append(own, config.AgentFile{Place: place, Named: true, Discovered: true})
			}
		}
	}
	if own != nil {
		c.AgentFiles = own
	}
}
