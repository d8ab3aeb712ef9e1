package encode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"

	"gperf/result"
)

// JSON prints r as one indented document and a newline. A figure that is NaN
// or infinite has no place in a document: the error names it.
func JSON(w io.Writer, r *result.Run) error {
	return writeJSON(w, document(r), "  ")
}

// JSONLines prints a saved run as it would have come out while it ran: one
// line for each interval, then the whole result.
func JSONLines(w io.Writer, r *result.Run) error {
	var b bytes.Buffer
	for i := range r.Intervals {
		if err := IntervalJSON(&b, &r.Intervals[i]); err != nil {
			return fmt.Errorf("intervals[%d]: %w", i, err)
		}
	}
	if err := ResultJSON(&b, r); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// IntervalJSON prints one record of JSON lines: an interval, as it closes.
func IntervalJSON(w io.Writer, iv *result.Interval) error {
	return writeJSON(w, struct {
		Type string `json:"type"`
		*result.Interval
	}{"interval", document(iv)}, "")
}

// ResultJSON prints the last record of JSON lines: the document on one line,
// with its type. Decode reads it.
func ResultJSON(w io.Writer, r *result.Run) error {
	return writeJSON(w, struct {
		Type string `json:"type"`
		*result.Run
	}{"result", document(r)}, "")
}

func writeJSON(w io.Writer, v any, indent string) error {
	e := json.NewEncoder(w) // writes once, when all is encoded
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	if _, ok := errors.AsType[*json.UnsupportedValueError](err); ok {
		return fmt.Errorf("%s: no document can hold it", strings.TrimPrefix(unprintable(reflect.ValueOf(v)), "."))
	}
	return err
}

// unprintable returns the path and value of the first figure below v that is
// NaN or infinite, "" if there is none.
func unprintable(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Sprintf(" is %v", f)
		}
	case reflect.Pointer:
		return unprintable(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if s := unprintable(v.Index(i)); s != "" {
				return fmt.Sprintf("[%d]%s", i, s)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			s := unprintable(v.Field(i))
			if s == "" {
				continue
			}
			if f.Anonymous {
				return s
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return "." + name + s
		}
	}
	return ""
}

// document returns a copy of what v points to, with empty lists and objects
// where they are nil and the schema wants a list or an object.
func document[T any](v *T) *T {
	return filled(reflect.ValueOf(v), false).Interface().(*T)
}

func filled(v reflect.Value, nullable bool) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || v.Type().Elem().Kind() != reflect.Struct {
			return v
		}
		p := reflect.New(v.Type().Elem())
		p.Elem().Set(filled(v.Elem(), false))
		return p
	case reflect.Map:
		if v.IsNil() && !nullable {
			return reflect.MakeMap(v.Type())
		}
	case reflect.Slice:
		if v.IsNil() && nullable || v.Len() > 0 && v.Type().Elem().Kind() != reflect.Struct {
			return v
		}
		s := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			s.Index(i).Set(filled(v.Index(i), false))
		}
		return s
	case reflect.Struct:
		s := reflect.New(v.Type()).Elem()
		s.Set(v)
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				s.Field(i).Set(filled(v.Field(i), result.Nullable(f)))
			}
		}
		return s
	}
	return v
}

// Decode reads a document that JSON or ResultJSON wrote, or JSON lines with one
// result, whose intervals it has as well. It ignores keys that
// it doesn't know, since a later gperf may have added them, and refuses a
// document of another schema, text that isn't one document, and values of the
// wrong type, each in one line.
func Decode(rd io.Reader) (*result.Run, error) {
	b, err := io.ReadAll(rd)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, errors.New("empty: not a gperf result")
	}
	if b = withoutIntervals(b); len(bytes.TrimSpace(b)) == 0 {
		return nil, errors.New("intervals without a result: the run did not end")
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("not a gperf result: %w", explain(b, err))
	}
	switch head.Schema {
	case result.Schema:
	case "":
		return nil, errors.New("not a gperf result: it names no schema")
	default:
		return nil, fmt.Errorf("schema is %q, and this gperf reads %s", head.Schema, result.Schema)
	}
	r := new(result.Run)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, explain(b, err)
	}
	return r, nil
}

// withoutIntervals leaves nothing of the intervals that stand before a result
// in JSON lines, but the ends of their lines.
func withoutIntervals(b []byte) []byte {
	rest, ends := b, 0
	for {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		var record struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(line, &record) != nil || record.Type != "interval" {
			return append(bytes.Repeat([]byte("\n"), ends), rest...)
		}
		rest = after
		ends++
	}
}

// explain says in a reader's words why b could not be parsed.
func explain(b []byte, err error) error {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		if e.Offset >= int64(len(b)) {
			return errors.New("the document ends too early")
		}
		return fmt.Errorf("line %d: %w", 1+bytes.Count(b[:e.Offset], []byte("\n")), err)
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if e.Field == "" {
			return fmt.Errorf("%s instead of an object", e.Value)
		}
		return fmt.Errorf("%s: %s instead of %s", e.Field, e.Value, e.Type)
	}
	return err
}
