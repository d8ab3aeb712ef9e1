package result

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"gperf/plan"
	"gperf/sockopt"
)

// schemaID names the published schema; it is an identifier, not a place to
// fetch it from.
const schemaID = "urn:gperf:result:1"

// SchemaJSON returns the JSON Schema (draft 2020-12) of the document, as
// published in docs/result.schema.json. It is derived from the fields of Run:
// their types, json tags and doc tags. It lets through keys that it doesn't
// know, since a later gperf may add some.
func SchemaJSON() []byte { return newGenerator(false).json() }

// A schema is the part of JSON Schema that the document needs.
type schema struct {
	Dialect     string             `json:"$schema,omitempty"`
	ID          string             `json:"$id,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Ref         string             `json:"$ref,omitempty"`
	AnyOf       []*schema          `json:"anyOf,omitempty"`
	Type        types              `json:"type,omitempty"`
	Const       string             `json:"const,omitempty"`
	Enum        []string           `json:"enum,omitempty"`
	Format      string             `json:"format,omitempty"`
	Minimum     *int               `json:"minimum,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Additional  any                `json:"additionalProperties,omitempty"` // bool or *schema
	Defs        map[string]*schema `json:"$defs,omitempty"`

	keys []string // of Properties, in the order of the document
}

// types are the JSON types of a value, one or several.
type types []string

func (t types) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// A generator turns Go types into schemas. Each struct becomes a definition of
// its own, once.
type generator struct {
	additional bool // whether objects may have keys that aren't described
	root       *schema
	defs       map[string]*schema
	types      map[string]reflect.Type // that defs describes
	names      []string                // of defs, in the order in which the document names them
}

// newGenerator describes Run. In strict mode objects allow no key but those
// described, so that a test can tell when the document has an undescribed one.
func newGenerator(strict bool) *generator {
	g := &generator{additional: !strict, defs: map[string]*schema{}, types: map[string]reflect.Type{}}
	g.root = g.object(reflect.TypeFor[Run]())
	g.root.Dialect = "https://json-schema.org/draft/2020-12/schema"
	g.root.ID = schemaID
	g.root.Title = "gperf result"
	g.root.Properties["schema"].Const = Schema
	g.root.Defs = g.defs
	return g
}

// json returns the whole schema as a document.
func (g *generator) json() []byte {
	b, err := json.MarshalIndent(g.root, "", "  ")
	if err != nil {
		panic(err) // plain strings and maps: cannot happen
	}
	return append(b, '\n')
}

// object describes a struct by its fields. One without documentation is left
// out, which the strict schema then refuses.
func (g *generator) object(t reflect.Type) *schema {
	s := &schema{Type: types{"object"}, Properties: map[string]*schema{}, Additional: g.additional}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		doc := docOf(t, name, f)
		if f.Anonymous || name == "-" || doc == "" {
			continue
		}
		property := g.field(f)
		property.Description = doc
		s.add(name, property, options == "omitempty")
	}
	return s
}

func (s *schema) add(key string, property *schema, optional bool) {
	s.keys = append(s.keys, key)
	s.Properties[key] = property
	if !optional {
		s.Required = append(s.Required, key)
	}
}

// field describes one field.
func (g *generator) field(f reflect.StructField) *schema {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := g.value(t)
	if Nullable(f) {
		s = orNull(s)
	}
	return s
}

// Nullable reports whether a field of the document may be null. A pointer may;
// a list or map may where its documentation says what null means, and is
// otherwise printed as empty when it is nil.
func Nullable(f reflect.StructField) bool {
	switch f.Type.Kind() {
	case reflect.Pointer:
		return true
	case reflect.Slice, reflect.Map:
		return strings.Contains(f.Tag.Get("doc"), "null")
	default:
		return false
	}
}

func orNull(s *schema) *schema {
	if s.Ref != "" {
		return &schema{AnyOf: []*schema{s, {Type: types{"null"}}}}
	}
	s.Type = append(s.Type, "null")
	return s
}

// value describes a type; each call makes a new schema.
func (g *generator) value(t reflect.Type) *schema {
	if s := special(t); s != nil {
		return s
	}
	if t == reflect.TypeFor[TCPInfo]() {
		return g.define(t)
	}
	switch t.Kind() {
	case reflect.Bool:
		return &schema{Type: types{"boolean"}}
	case reflect.Int, reflect.Int64:
		return &schema{Type: types{"integer"}}
	case reflect.Uint32, reflect.Uint64:
		return &schema{Type: types{"integer"}, Minimum: new(int)}
	case reflect.Float64:
		return &schema{Type: types{"number"}}
	case reflect.String:
		return &schema{Type: types{"string"}}
	case reflect.Slice:
		return &schema{Type: types{"array"}, Items: g.value(t.Elem())}
	case reflect.Map:
		return &schema{Type: types{"object"}, Additional: g.value(t.Elem())}
	case reflect.Pointer:
		return orNull(g.value(t.Elem()))
	case reflect.Struct:
		return g.define(t)
	default:
		panic("no JSON Schema for " + t.String())
	}
}

// special describes types that have a JSON form of their own, or few values.
func special(t reflect.Type) *schema {
	switch t {
	case reflect.TypeFor[time.Time]():
		return &schema{Type: types{"string"}, Format: "date-time"}
	case reflect.TypeFor[plan.Seconds]():
		return &schema{Type: types{"number", "null"}}
	case reflect.TypeFor[sockopt.Value]():
		return &schema{Type: types{"integer", "string", "null"}}
	case reflect.TypeFor[Status]():
		return enum(Complete, Partial, Failed)
	case reflect.TypeFor[plan.Type]():
		return enum(plan.Types()...)
	case reflect.TypeFor[plan.Direction]():
		return enum(plan.ClientToServer, plan.ServerToClient, plan.Both)
	case reflect.TypeFor[sockopt.Verdict]():
		return enum(sockopt.Auto, sockopt.Exact, sockopt.Doubled, sockopt.Adjusted, sockopt.Raised, sockopt.Clamped,
			sockopt.NotHeld, sockopt.NoEffect, sockopt.Ignored, sockopt.Unsupported, sockopt.Unverified)
	case reflect.TypeFor[plan.Role]():
		return enum(plan.Sender, plan.Receiver, plan.Requester, plan.Responder)
	}
	return nil
}

func enum[T ~string](values ...T) *schema {
	s := &schema{Type: types{"string"}}
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
	}
	return s
}

// tcpInfo describes TCP_INFO by sockopt's table of its fields.
func (g *generator) tcpInfo() *schema {
	s := &schema{Type: types{"object"}, Properties: map[string]*schema{}, Additional: g.additional}
	for _, f := range sockopt.TCPFields() {
		s.add(f.Name, &schema{
			Type: types{"integer", "null"}, Minimum: new(int),
			Description: fmt.Sprintf("%s (%s, Linux %s)", f.Doc, f.Kernel, f.Since),
		}, false)
	}
	return s
}

// rowDocs documents the fields of sockopt.Row, a package that knows of no
// document.
var rowDocs = map[string]string{
	"end":       "client or server",
	"stream":    "stream number; null: the same on every stream",
	"knob":      "key of the knob, as in the plan",
	"requested": "what was asked for, in the kernel's unit; null: nothing, the kernel's own choice",
	"effective": "what the kernel reported after setting; null: not known, or no limit",
	"at_start":  "what it reported at the window's start",
	"at_end":    "what it reported at the window's end",
	"verdict":   "what became of the request",
	"detail":    "why, in words",
}

// docOf returns the documentation of a field of t.
func docOf(t reflect.Type, key string, f reflect.StructField) string {
	if t == reflect.TypeFor[sockopt.Row]() {
		return rowDocs[key]
	}
	return f.Tag.Get("doc")
}

// define describes a struct under its name and returns the reference to it.
func (g *generator) define(t reflect.Type) *schema {
	if strings.Contains(t.Name(), "[") {
		return g.object(t) // an instance of a generic type has no name to show
	}
	name := t.Name()
	if known, ok := g.types[name]; ok && known != t {
		panic("two types of the document are called " + name)
	} else if !ok {
		g.types[name] = t
		g.names = append(g.names, name) // before those of its fields
		if t == reflect.TypeFor[TCPInfo]() {
			g.defs[name] = g.tcpInfo()
		} else {
			g.defs[name] = g.object(t)
		}
	}
	return &schema{Ref: "#/$defs/" + name}
}
