package signin

import (
	"context"
	"errors"
	"fmt"

	"github.com/zalando/go-keyring"
)

// keysService names the entries of API keys in the keyring; the user of an entry is the id of the
// key.
const keysService = "agents key"

// StoredKey returns the API key with an id from the system's keyring, which may ask the person
// for its password.
func StoredKey(ctx context.Context, id string) (string, error) {
	text, err := within(ctx, unlockWait, func() (string, error) { return keyring.Get(keysService, id) })
	if errors.Is(err, keyring.ErrNotFound) {
		err = fmt.Errorf("it has no key %q; `agents keys set %s --keyring` puts it there", id, id)
	}
	return text, err
}

// StoreKey puts an API key into the system's keyring, in place of the one with the id.
func StoreKey(ctx context.Context, id, key string) error {
	_, err := within(ctx, unlockWait, func() (string, error) { return "", keyring.Set(keysService, id, key) })
	return err
}

// RemoveKey removes an API key from the system's keyring, if it is there.
func RemoveKey(ctx context.Context, id string) error {
	_, err := within(ctx, unlockWait, func() (string, error) { return "", keyring.Delete(keysService, id) })
	if errors.Is(err, keyring.ErrNotFound) {
		return nil
	}
	return err
}
