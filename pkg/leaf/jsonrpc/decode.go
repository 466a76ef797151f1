package jsonrpc

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// Unmarshal decodes data into v as json.Unmarshal does, but compares keys exactly. It
// looks into structs, and pointers and slices of them, whose fields have json tags.
func Unmarshal(data []byte, v any) error {
	return decode(data, reflect.ValueOf(v).Elem())
}

func decode(data json.RawMessage, v reflect.Value) error {
	_, custom := v.Addr().Interface().(json.Unmarshaler)
	switch {
	case custom || string(data) == "null":
	case v.Kind() == reflect.Struct:
		return decodeStruct(data, v)
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct:
		v.Set(reflect.New(v.Type().Elem()))
		return decode(data, v.Elem())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		var items []json.RawMessage
		if err := json.Unmarshal(data, &items); err != nil {
			return err
		}
		v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
		for i, item := range items {
			if err := decode(item, v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	return json.Unmarshal(data, v.Addr().Interface())
}

func decodeStruct(data json.RawMessage, v reflect.Value) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct {
			if err := decodeStruct(data, v.Field(i)); err != nil {
				return err
			}
		}
		value, ok := members[name]
		if !ok {
			continue
		}
		err := decode(value, v.Field(i))
		if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			kind.Field = strings.TrimSuffix(name+"."+kind.Field, ".")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
