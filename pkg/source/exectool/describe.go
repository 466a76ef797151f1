package exectool

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/agents-exe/agents/pkg/leaf/spool"
	"github.com/agents-exe/agents/pkg/process"
)

// DescribeTimeout is how long a tool may take to describe itself: Python on a busy
// machine needs several seconds to start.
const DescribeTimeout = 20 * time.Second

// slowDescribe is the time after which Options.Slow is called.
const slowDescribe = time.Second

// clockTick is longer than the coarsest clock that dates files in Linux: of two
// changes within one tick a file's times show only one.
const clockTick = 10 * time.Millisecond

// describe runs cmd, which lacks only its arguments and streams, as `PROGRAM describe`,
// and returns what it prints, unread: see ParseDescription. It may take DescribeTimeout
// and print MaxDescriptionBytes. What it prints on stderr matters only if it fails: the
// error ends in its last line.
func describe(ctx context.Context, cmd *process.Command, opts *Options) ([]byte, error) {
	cmd.Args = []string{"describe"}
	return read(ctx, cmd, opts, reading{limit: cmp.Or(opts.DescribeTimeout, DescribeTimeout), most: MaxDescriptionBytes})
}

// A reading limits a program whose output is read: its time and the bytes that it may
// print.
type reading struct {
	limit time.Duration
	most  int
}

var errTimeout = errors.New("timed out")

// read runs cmd, which lacks only its streams, with empty standard input, and
// returns what it prints, without secrets: a description is kept in the cache.
func read(ctx context.Context, cmd *process.Command, opts *Options, r reading) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.limit, fmt.Errorf("%w after %s", errTimeout, seconds(r.limit)))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	errTooLong := fmt.Errorf("it prints more than %d bytes", r.most)
	stdout := &limited{max: r.most, full: func() { stop(errTooLong) }}
	stderr := &spool.Output{MemoryOnly: true}
	clean := opts.Redact.Writer(stderr)
	cmd.Stdout, cmd.Stderr = stdout, clean
	cmd.Mark = "describe." + rand.Text()
	cmd.EndContainer()
	exit, err := process.Run(ctx, cmd)
	clean.Close()
	start, unstarted := errors.AsType[*process.StartError](err)
	switch {
	case unstarted:
		return nil, startError(ctx, start, size(cmd.Args))
	case stdout.over:
		return nil, errTooLong
	case exit.Cancelled:
		return nil, withReason(context.Cause(ctx), stderr)
	case exit.Code != 0:
		return nil, withReason(errors.New(exit.String()), stderr)
	case err != nil:
		return nil, err
	}
	return opts.Redact.Bytes(stdout.data), nil
}

// withReason adds to err the last line of stderr that is not empty and not one of
// sh -x. It is one line, so that it fits where problems are listed a line each and
// cannot pass for another problem.
func withReason(err error, stderr *spool.Output) error {
	const most = 1000
	text := stderr.Tail(most)
	reason := ""
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r != '\t' && unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }) {
		if line = strings.TrimSpace(line); line != "" && (reason == "" || !strings.HasPrefix(line, "+ ")) {
			reason = line
		}
	}
	if reason == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, reason)
}

// A limited keeps what is written to it up to max bytes, and calls full at the
// first byte too many.
type limited struct {
	max  int
	full func()
	data []byte
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if room := l.max - len(l.data); len(p) > room {
		l.data = append(l.data, p[:room]...)
		if !l.over {
			l.over = true
			l.full()
		}
		return len(p), nil
	}
	l.data = append(l.data, p...)
	return len(p), nil
}

// described is an entry, and whether it may be kept.
type described struct {
	entry
	lasting bool
}

func (o *opener) describe(ctx context.Context, c *candidate) (described, error) {
	before, known, err := settled(ctx, c)
	if err != nil {
		return described{}, fmt.Errorf("describe %s: %w", c.path, err)
	}
	defer o.reportSlow(c.path)()
	cmd := &process.Command{Path: c.abs, Env: o.environs[c.src], Dir: c.src.Dir, Grace: o.opts.Grace, Sandbox: c.src.box(c.abs)}
	raw, err := describe(ctx, cmd, &o.opts.Options)
	if err != nil {
		return described{}, fmt.Errorf("describe %s: %w", c.path, err)
	}
	d, notes, err := ParseDescription(raw)
	if err != nil {
		return described{}, fmt.Errorf("describe %s: %w", c.path, err)
	}
	info, err := os.Stat(c.abs)
	if err != nil {
		return described{}, fmt.Errorf("describe %s: %w", c.path, err)
	}
	after, _ := identify(c.real, info)
	return described{entry{id: after, raw: raw, digest: largeDigest(c.abs, after.size), spec: d.Spec(), notes: notes}, known && before == after}, nil
}

// reportSlow calls Options.Slow for path unless stop is called within slowDescribe.
func (o *opener) reportSlow(path string) (stop func()) {
	if o.opts.Slow == nil {
		return func() {}
	}
	reported := make(chan struct{})
	timer := time.AfterFunc(slowDescribe, func() {
		defer close(reported)
		o.opts.Slow(path)
	})
	return func() {
		if !timer.Stop() {
			<-reported
		}
	}
}

const (
	// largeFile is the size from which an executable is hashed when it is
	// described and not at its first call: that takes longer than a call
	// should.
	largeFile = 256 << 10
	// maxDigestBytes is how large an executable may be to be hashed.
	maxDigestBytes = 64 << 20
)

func largeDigest(path string, size int64) string {
	if size < largeFile || size > maxDigestBytes {
		return ""
	}
	return Digest(path)
}

// Digest is the hash of a regular file, as "sha256:…"; empty if it cannot be read.
func Digest(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() { // opening a pipe would wait
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return DigestSum(h.Sum(nil))
}

// DigestSum is a SHA-256 sum in the form of Digest.
func DigestSum(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }

// settled identifies a candidate that is about to be described. One that changed
// within the last tick of the clock is given time: a later change within that
// tick would look the same as this one, and its description would be kept for
// the wrong content.
func settled(ctx context.Context, c *candidate) (identity, bool, error) {
	id, known := identify(c.real, c.info)
	if !known || id.age() < 0 || id.age() > clockTick {
		return id, known, nil
	}
	timer := time.NewTimer(clockTick)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return id, false, context.Cause(ctx)
	}
	info, err := os.Stat(c.abs)
	if err != nil {
		return id, false, err
	}
	id, known = identify(c.real, info)
	return id, known, nil
}
