package encode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"gperf/result"
)

// KeyVal prints every scalar of the JSON document on a line of its own, as
// path=value: summary.throughput_bits_per_second=9410000000,
// streams[0].client.role=sender. Numbers, booleans and null are as in JSON, a
// string stands bare unless it holds something unprintable, which quotes it.
// An empty list or object has no line.
func KeyVal(w io.Writer, r *result.Run) error {
	var doc bytes.Buffer
	if err := JSON(&doc, r); err != nil {
		return err
	}
	d := json.NewDecoder(&doc)
	d.UseNumber()
	var b bytes.Buffer
	if err := flatten(&b, d, ""); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// flatten prints the next value of d, whose place in the document is path.
// Reading tokens keeps the order of the document.
func flatten(b *bytes.Buffer, d *json.Decoder, path string) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return err
			}
			if err := flatten(b, d, strings.TrimPrefix(path+"."+scalar(key), ".")); err != nil {
				return err
			}
		}
		_, err = d.Token()
	case json.Delim('['):
		for i := 0; d.More(); i++ {
			if err := flatten(b, d, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		_, err = d.Token()
	default:
		fmt.Fprintf(b, "%s=%s\n", path, scalar(token))
	}
	return err
}

func scalar(token json.Token) string {
	switch v := token.(type) {
	case nil:
		return "null"
	case string:
		return oneLine(v)
	}
	return fmt.Sprint(token)
}
