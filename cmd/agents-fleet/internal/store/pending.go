package store

import (
	"context"
	"errors"
	"net/url"
)

func openPostgres(context.Context, string) (Store, error) {
	return nil, errors.New("open store: postgres is not supported yet")
}
func openS3(context.Context, *url.URL) (Store, error) {
	return nil, errors.New("open store: s3 is not supported yet")
}
