package signin_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/zalando/go-keyring"

	"github.com/agents-exe/agents/pkg/source/signin"
)

func TestKeysInTheKeyring(t *testing.T) {
	keyring.MockInit()
	ctx := t.Context()
	if _, err := signin.StoredKey(ctx, "openai"); err == nil || !strings.Contains(err.Error(), "agents keys set openai --keyring") {
		t.Errorf("StoredKey = %v", err)
	}
	for _, key := range []string{"sk-one", "sk-two"} {
		err := signin.StoreKey(ctx, "openai", key)
		if got, readErr := signin.StoredKey(ctx, "openai"); err != nil || readErr != nil || got != key {
			t.Errorf("StoredKey = %q, %v, %v", got, err, readErr)
		}
	}
	for range 2 { // the second time it is not there
		if err := signin.RemoveKey(ctx, "openai"); err != nil {
			t.Error(err)
		}
	}
	keyring.MockInitWithError(errors.New("locked"))
	if _, err := signin.StoredKey(ctx, "openai"); err == nil || err.Error() != "locked" {
		t.Errorf("StoredKey = %v", err)
	}
}
