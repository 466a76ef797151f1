package store

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// s3Server starts a server of others and returns the location of a store in it.
func s3Server(t *testing.T, between func(http.Handler) http.Handler) string {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("fleet"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(between(gofakes3.New(backend).Server()))
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return "s3://fleet/some/prefix?endpoint=" + url.QueryEscape(server.URL)
}

func unchanged(h http.Handler) http.Handler { return h }

// postgres is the server of all tests, which TestMain stops.
var postgres struct {
	location string
	stop     func()
	schemas  atomic.Int64
}

// postgresServer starts a server on a socket in a folder and returns the location of an
// empty schema.
func postgresServer(t *testing.T) string {
	t.Helper()
	if postgres.location == "" {
		startPostgres(t)
	}
	ctx := context.Background()
	s, err := Open(ctx, postgres.location)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	name := fmt.Sprint("test", postgres.schemas.Add(1))
	if _, err := s.(*database).pool.Exec(ctx, "CREATE SCHEMA "+name); err != nil {
		t.Fatal(err)
	}
	return postgres.location + "&search_path=" + name
}

func startPostgres(t *testing.T) {
	bin := postgresFolder()
	if bin == "" {
		t.Skip("PostgreSQL is not installed: apt-get install postgresql")
	}
	dir, err := os.MkdirTemp("", "fleet-pg-") // short enough for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 { // which postgres refuses
		account, err := user.Lookup("postgres")
		if err != nil {
			account, err = user.Lookup("nobody")
		}
		if err != nil {
			t.Skip("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
		}
		uid, _ := strconv.Atoi(account.Uid)
		gid, _ := strconv.Atoi(account.Gid)
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	run := func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, program), args...)
		cmd.Dir, cmd.SysProcAttr = dir, attr
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := run("initdb", "-D", data, "-A", "trust", "-U", "fleet", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	log := filepath.Join(dir, "log")
	if out, err := run("pg_ctl", "-D", data, "-w", "-l", log, "-o", "-k "+dir+" -c listen_addresses= -c synchronous_commit=off", "start").CombinedOutput(); err != nil {
		text, _ := os.ReadFile(log)
		t.Fatalf("pg_ctl start: %v\n%s%s", err, out, text)
	}
	postgres.location = "postgres://fleet@/postgres?host=" + url.QueryEscape(dir)
	postgres.stop = func() {
		_ = run("pg_ctl", "-D", data, "-m", "immediate", "stop").Run()
		os.RemoveAll(dir)
	}
}

// postgresFolder is the folder of PostgreSQL's programs: Debian has one for each version.
func postgresFolder() string {
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(found) > 0 {
		return filepath.Dir(slices.Max(found))
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	return ""
}

// A server that ignores If-None-Match would let workers overwrite each other's events.
func TestOpenRefusesS3WithoutConditions(t *testing.T) {
	location := s3Server(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("If-None-Match")
			h.ServeHTTP(w, r)
		})
	})
	if _, err := open(location); err == nil || !strings.Contains(err.Error(), "If-None-Match") {
		t.Errorf("Open = %v, want that the server ignores If-None-Match", err)
	}
}

// The answer to a request may be lost after the server has stored the object.
func TestS3RecognisesItsOwnObject(t *testing.T) {
	var lose atomic.Bool
	s := opened(t, s3Server(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut && lose.CompareAndSwap(true, false) {
				h.ServeHTTP(httptest.NewRecorder(), r)
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			h.ServeHTTP(w, r)
		})
	}))
	lose.Store(true)
	if err := s.Append(t.Context(), "r", 0, [][]byte{[]byte(`{}`)}); err != nil {
		t.Errorf("Append whose answer was lost = %v", err)
	}
	lose.Store(true)
	if stored, err := s.Put(t.Context(), "o", []byte("x")); !stored || err != nil {
		t.Errorf("Put whose answer was lost = %v, %v, want true", stored, err)
	}
	if lose.Load() {
		t.Error("no answer was lost")
	}
}

// A PUT that meets another one that has not ended is repeated.
func TestS3RepeatsConflicts(t *testing.T) {
	var conflicts atomic.Int64
	s := opened(t, s3Server(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut && conflicts.Add(-1) >= 0 {
				w.WriteHeader(http.StatusConflict)
				return
			}
			h.ServeHTTP(w, r)
		})
	}))
	conflicts.Store(3)
	if err := s.Append(t.Context(), "r", 0, [][]byte{[]byte(`{}`)}); err != nil {
		t.Errorf("Append after three conflicts = %v", err)
	}
	const many = 1_000_000
	conflicts.Store(many)
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if err := s.Append(ctx, "r", 1, [][]byte{[]byte(`{}`)}); err == nil || conflicts.Load() < many-50 {
		t.Errorf("Append while another PUT is in progress = %v, after %d requests", err, many-conflicts.Load())
	}
}

func TestS3ReportsDamage(t *testing.T) {
	var cut atomic.Bool
	s := opened(t, s3Server(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || !cut.Load() || !strings.Contains(r.URL.Path, "/record/") {
				h.ServeHTTP(w, r)
				return
			}
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, r)
			_, _ = w.Write(bytes.TrimSuffix(answer.Body.Bytes(), []byte("\n")))
		})
	}))
	if err := s.Append(t.Context(), "r", 0, [][]byte{[]byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Read(t.Context(), "r", 0); len(got) != 1 || err != nil {
		t.Errorf("Read = %s, %v", got, err)
	}
	cut.Store(true)
	if got, err := s.Read(t.Context(), "r", 0); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("Read of an incomplete object = %s, %v, want that it is damaged", got, err)
	}
}

// A removal that the network interrupts is completed by the next one.
func TestS3CompletesARemoval(t *testing.T) {
	var deletions atomic.Int64
	deletions.Store(2)
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	s := opened(t, s3Server(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodDelete && deletions.Add(-1) < 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			h.ServeHTTP(w, r)
		})
	}))
	for n := range int64(5) {
		if err := s.Append(t.Context(), "r", n, [][]byte{[]byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Remove(t.Context(), "r"); err == nil {
		t.Fatal("Remove without the network succeeded")
	}
	deletions.Store(100)
	if names, err := s.Owners(t.Context(), "z"); len(names) > 0 || err != nil {
		t.Errorf("Owners = %q, %v, want none", names, err)
	}
	if keys, err := s.(*bucket).list(t.Context(), s.(*bucket).prefix, ""); len(keys) != 1 || err != nil {
		t.Errorf("the bucket has the keys %q, %v, want that of the store", keys, err)
	}
}

// Commits wait for the disk, whatever the server's configuration says.
func TestPostgresCommitsToDisk(t *testing.T) {
	s := opened(t, postgresServer(t)).(*database)
	var mode string
	if err := s.pool.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&mode); err != nil || mode != "on" {
		t.Errorf("synchronous_commit = %q, %v, want on", mode, err)
	}
}

func TestErrorsHaveNoPasswords(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	for _, location := range []string{
		"postgres://fleet:hunter2@/fleet?host=" + url.QueryEscape(t.TempDir()),
		"postgres://fleet:hunter2@%zz/fleet",
		"postgres://fleet:hunter2@host:port/fleet",
		"postgres://fleet:hunter2@host/fleet?sslmode=hunter2",
		"postgres://fleet@host/fleet?password=hunter2&sslmode=none",
		"s3://hunter2:hunter2@bucket",
		"s3://bucket?secret=hunter2",
		"s3://bucket?endpoint=" + url.QueryEscape("http://127.0.0.1:1/"),
		"hunter2://bucket:%zz",
	} {
		s, err := Open(t.Context(), location)
		if err == nil {
			s.Close()
			t.Errorf("Open(%q) succeeded", location)
		} else if strings.Contains(strings.TrimPrefix(err.Error(), `open store: "hunter2" is not file`), "hunter2") {
			t.Errorf("Open(%q) = %v: it has the password", location, err)
		}
	}
}
