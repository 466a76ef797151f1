package chat

import (
	"context"
	"errors"
)

func (t *terminal) attachable() []string { return nil }

func (t *terminal) attach(context.Context, string) error { return errors.New("not yet") }

func (t *terminal) compact(context.Context, string) error { return errors.New("not yet") }
