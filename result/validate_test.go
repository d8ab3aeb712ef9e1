package result_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"gperf/plan"
	"gperf/result"
	"gperf/result/encode"
	"gperf/sockopt"
)

func compile(t *testing.T, schema []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("result.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("result.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func validate(t *testing.T, s *jsonschema.Schema, doc []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

func document(t *testing.T, r *result.Run) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := encode.JSON(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The strict schema describes all that a document can hold: a field without
// documentation fails here.
func TestDocumentsValidate(t *testing.T) {
	strict := compile(t, result.StrictSchemaJSON())
	docs := map[string][]byte{
		"full":   document(t, example(true)),
		"sparse": document(t, example(false)),
		"empty":  document(t, &result.Run{Schema: result.Schema, Status: result.Failed}),
	}
	files, err := filepath.Glob("encode/testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden documents: %v", err)
	}
	for _, file := range files {
		if docs[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	for name, doc := range docs {
		if err := validate(t, strict, doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	published, strict := compile(t, result.SchemaJSON()), compile(t, result.StrictSchemaJSON())
	good := string(document(t, example(true)))
	tests := []struct {
		name, old, new string
		published      bool // whether the published schema lets it through
	}{
		{"another schema", `"schema": "gperf/1"`, `"schema": "gperf/2"`, false},
		{"an unknown status", `"status": "complete"`, `"status": "done"`, false},
		{"a string for a number", `"sent_bytes": 1`, `"sent_bytes": "1"`, false},
		{"a missing key", `"audit":`, `"audits":`, false},
		{"a key in addition", `"audit":`, `"weather": "fine", "audit":`, true},
		{"null where none may be", `"warnings": [`, `"warnings": null, "w": [`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bad := []byte(strings.Replace(good, tt.old, tt.new, 1))
			if string(bad) == good {
				t.Fatalf("%s isn't in the document", tt.old)
			}
			if err := validate(t, strict, bad); err == nil {
				t.Error("the strict schema lets it through")
			}
			if err := validate(t, published, bad); (err == nil) != tt.published {
				t.Errorf("the published schema says: %v", err)
			}
		})
	}
}

// example fills a Run by its types. A full one has all that can be there, a
// sparse one nil for every pointer, list and map below the top.
func example(full bool) *result.Run {
	r := new(result.Run)
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		fillIn(v.Field(i), full, 0)
	}
	r.Schema = result.Schema
	return r
}

// values are those of types that can't hold just anything.
var values = map[reflect.Type]any{
	reflect.TypeFor[time.Time]():       time.Date(2026, 11, 20, 10, 15, 30, 0, time.UTC),
	reflect.TypeFor[result.Status]():   result.Complete,
	reflect.TypeFor[plan.Type]():       plan.TCPStream,
	reflect.TypeFor[plan.Direction]():  plan.Both,
	reflect.TypeFor[plan.Role]():       plan.Sender,
	reflect.TypeFor[sockopt.Verdict](): sockopt.Exact,
	reflect.TypeFor[sockopt.Value]():   sockopt.Int(1),
	reflect.TypeFor[result.TCPInfo]():  tcpInfo(),
}

func tcpInfo() result.TCPInfo {
	info := result.TCPInfo{}
	for i, f := range sockopt.TCPFields() {
		info[f.Name] = nil
		if i%2 == 0 {
			info[f.Name] = new(uint64)
		}
	}
	return info
}

func fillIn(v reflect.Value, full bool, depth int) {
	if value, ok := values[v.Type()]; ok && (full || v.Kind() != reflect.Map) {
		v.Set(reflect.ValueOf(value))
		return
	}
	absent := !full && depth > 0
	switch v.Kind() {
	case reflect.Pointer:
		if !absent {
			v.Set(reflect.New(v.Type().Elem()))
			fillIn(v.Elem(), full, depth+1)
		}
	case reflect.Slice:
		if !absent {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fillIn(v.Index(0), full, depth+1)
		}
	case reflect.Map:
		if !absent {
			v.Set(reflect.MakeMap(v.Type()))
			element := reflect.New(v.Type().Elem()).Elem()
			fillIn(element, full, depth+1)
			v.SetMapIndex(reflect.ValueOf("name"), element)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fillIn(v.Field(i), full, depth+1)
		}
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	}
}
