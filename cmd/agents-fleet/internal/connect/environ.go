package connect

import (
	"strings"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
)

// environ is an environment as package envconfig wants it.
type environ []string

func (e environ) Environ() []string { return e }

func (e environ) LookupEnv(key string) (value string, ok bool) {
	for _, pair := range e {
		if k, v, _ := strings.Cut(pair, "="); k == key && v != "" {
			value, ok = v, true
		}
	}
	return value, ok
}

// Types are search attributes by name, as servers register them.
func Types(attributes []temporal.SearchAttributeKey) map[string]enums.IndexedValueType {
	types := map[string]enums.IndexedValueType{}
	for _, a := range attributes {
		types[a.GetName()] = a.GetValueType()
	}
	return types
}
