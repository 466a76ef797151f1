package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"
)

// A bucket is a Store in a bucket of an S3-compatible server: an object for each append,
// named after the number of its first event, and one for each object. Nothing is
// overwritten: the server must refuse a PUT with If-None-Match: * of a key that exists.
type bucket struct {
	client *s3.Client
	name   string
	prefix string
	ends   ends
}

const (
	numberDigits = 19 // of an int64, so that keys are sorted like their numbers
	parallel     = 16 // requests
	writerKey    = "writer"

	conflictPause = 20 * time.Millisecond
)

func openS3(ctx context.Context, u *url.URL) (Store, error) {
	endpoint, region := u.Query().Get("endpoint"), u.Query().Get("region")
	for key := range u.Query() {
		if key != "endpoint" && key != "region" {
			return nil, fmt.Errorf("open store: unknown parameter %q of an s3 URL", key)
		}
	}
	if u.User != nil || u.Host == "" {
		return nil, errors.New("open store: an s3 URL must have a bucket and no keys, which are configured as for the AWS command line")
	}
	options := []func(*config.LoadOptions) error{
		config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired), // other servers do not know it
		config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired),
	}
	if region == "" && endpoint != "" {
		region = "us-east-1"
	}
	if region != "" {
		options = append(options, config.WithRegion(region))
	}
	c, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	client := s3.NewFromConfig(c, func(o *s3.Options) {
		if endpoint != "" {
			o.BaseEndpoint, o.UsePathStyle = &endpoint, true
		}
	})
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	b := &bucket{client: client, name: u.Host, prefix: prefix}
	stored, err := b.put(ctx, b.prefix+"agents-fleet", nil)
	if stored {
		stored, err = b.put(ctx, b.prefix+"agents-fleet", nil)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("open store: %w", err)
	case stored:
		return nil, errors.New("open store: the s3 server ignores If-None-Match: workers would overwrite each other's events")
	}
	return b, nil
}

func (b *bucket) Close() error { return nil }

// put stores an object if there is none with that key. Requests are repeated, so the object
// that is there may be the one that an earlier attempt stored.
func (b *bucket) put(ctx context.Context, key string, data []byte) (bool, error) {
	writer := rand.Text()
	for {
		_, err := b.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.name, Key: &key, Body: bytes.NewReader(data),
			IfNoneMatch: aws.String("*"), Metadata: map[string]string{writerKey: writer}})
		switch status(err) {
		case http.StatusConflict: // with a PUT that has not ended: it may fail
			select {
			case <-time.After(conflictPause):
				continue
			case <-ctx.Done():
				return false, context.Cause(ctx)
			}
		case http.StatusPreconditionFailed:
			head, err := b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.name, Key: &key})
			return err == nil && head.Metadata[writerKey] == writer, err
		}
		return err == nil, err
	}
}

func status(err error) int {
	if e, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		return e.HTTPStatusCode()
	}
	return 0
}

func (b *bucket) get(ctx context.Context, key string) ([]byte, error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key})
	if _, ok := errors.AsType[*types.NoSuchKey](err); ok {
		return nil, fmt.Errorf("object %s: %w", key, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	defer out.Body.Close()
	return io.ReadAll(out.Body)
}

func (b *bucket) Put(ctx context.Context, name string, data []byte) (bool, error) {
	if err := checkName(name); err != nil {
		return false, err
	}
	return b.put(ctx, b.key(kindObject, name), data)
}

func (b *bucket) Get(ctx context.Context, name string) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return b.get(ctx, b.key(kindObject, name))
}

// key returns the S3 key of an object, or the prefix of the keys of a record.
func (b *bucket) key(kind, name string) string {
	owner, base := entry(kind, name)
	return b.prefix + owner + "/" + base
}

// appendKey returns the S3 key of the append whose first event has the number.
func (b *bucket) appendKey(record string, number int64) string {
	return fmt.Sprintf("%s/%0*d", b.key(kindRecord, record), numberDigits, number)
}

func (b *bucket) Append(ctx context.Context, record string, after int64, events [][]byte) error {
	if err := checkAppend(record, after, events); err != nil {
		return err
	}
	// The key of the next append is free also where the record ends before it, and where an
	// append spans it.
	if b.ends.find(record, after).number != after {
		if newer, err := b.Read(ctx, record, after); err != nil {
			return err
		} else if len(newer) > 0 {
			return ErrBehind
		}
	}
	stored, err := b.put(ctx, b.appendKey(record, after+1), encodeBatch(after, events))
	if err != nil {
		return fmt.Errorf("append to record %s: %w", record, err)
	}
	if !stored {
		return ErrBehind
	}
	b.ends.note(record, place{number: after + int64(len(events))})
	return nil
}

func (b *bucket) Read(ctx context.Context, record string, after int64) ([][]byte, error) {
	if err := checkName(record); err != nil {
		return nil, err
	}
	start := b.ends.find(record, after).number
	texts, err := b.appends(ctx, record, start)
	if err != nil {
		return nil, fmt.Errorf("read record %s: %w", record, err)
	}
	var events [][]byte
	for _, text := range texts {
		list, size, err := decodeBatches(text, start+int64(len(events)))
		if err != nil || size < len(text) || size == 0 {
			return nil, fmt.Errorf("read record %s: the data after event %d is damaged", record, start+int64(len(events)))
		}
		events = append(events, list...)
	}
	end := start + int64(len(events))
	if end < after {
		return nil, errMissing(record, after)
	}
	b.ends.note(record, place{number: end})
	return events[after-start:], nil
}

// appends returns the appends whose first event follows a number, which ends another append.
func (b *bucket) appends(ctx context.Context, record string, number int64) ([][]byte, error) {
	keys, err := b.list(ctx, b.key(kindRecord, record)+"/", b.appendKey(record, number))
	if err != nil {
		return nil, err
	}
	texts := make([][]byte, len(keys))
	return texts, each(ctx, keys, func(ctx context.Context, i int) (err error) {
		texts[i], err = b.get(ctx, keys[i])
		return err
	})
}

// list returns the keys that begin with a prefix and sort after another key.
func (b *bucket) list(ctx context.Context, prefix, after string) (keys []string, err error) {
	pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &prefix, StartAfter: &after})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, o := range page.Contents {
			keys = append(keys, *o.Key)
		}
	}
	return keys, nil
}

// each calls do with the index of each key, several at the same time.
func each(ctx context.Context, keys []string, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range keys {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// removing is the prefix of keys that mark partly removed owners. No name of an owner begins
// with it.
const removing = ".removing/"

func (b *bucket) Owners(ctx context.Context, before string) (names []string, err error) {
	marks, err := b.list(ctx, b.prefix+removing, "")
	for _, mark := range marks {
		err = errors.Join(err, b.Remove(ctx, strings.TrimPrefix(mark, b.prefix+removing)))
	}
	if err != nil {
		return nil, err
	}
	pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &b.prefix, Delimiter: aws.String("/")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range page.CommonPrefixes {
			name := strings.TrimSuffix(strings.TrimPrefix(*p.Prefix, b.prefix), "/")
			if name < before && name+"/" != removing {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

func (b *bucket) Remove(ctx context.Context, owner string) error {
	mark := b.prefix + removing + owner
	if _, err := b.put(ctx, mark, nil); err != nil {
		return err
	}
	keys, err := b.list(ctx, b.prefix+owner+"/", "")
	if err == nil {
		err = each(ctx, keys, func(ctx context.Context, i int) error { return b.remove(ctx, keys[i]) })
	}
	if err != nil {
		return err
	}
	return b.remove(ctx, mark)
}

func (b *bucket) remove(ctx context.Context, key string) error {
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &key})
	return err
}
