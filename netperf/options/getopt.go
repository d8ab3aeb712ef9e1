package options

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// takes is what an option wants behind its letter.
type takes int

const (
	nothing takes = iota
	value         // one word, glued to the letter or the next one
	copied        // a pair of which a lone X counts for both
	apart         // a pair of which a lone X is the first only
	rate          // perhaps the next word: if it starts with a digit
	spec          // perhaps the next word: if it doesn't start with "-"
)

// An argument is what was given to an option. The halves of a pair are "" where
// they weren't given; at least one was.
type argument struct{ whole, first, second string }

// A target takes what a command line asks for.
type target interface {
	noEffect(what string)
}

// An option is a row of a table that drives both the parser and the help.
type option[T target] struct {
	letter byte
	long   string // a long name besides the letter, or ""
	takes  takes
	shown  string // the argument in the help
	help   string
	// set stores the argument. Its error says what is wrong with it, beginning
	// with the word itself; an *Exit is passed on as it is.
	set func(to T, arg argument) error
	// idle says why the option has no effect here, "" if it has one. Without
	// set its argument isn't looked at.
	idle string
}

// errHelp and errVersion are what set returns for options that ask for these.
var (
	errHelp    = errors.New("help wanted")
	errVersion = errors.New("version wanted")
)

// A mistake is a command line that can't be read.
type mistake struct {
	text   string // a line for standard error
	syntax bool   // of the kind that getopt(3) reports, which netperf follows with its usage
}

func (m *mistake) Error() string { return m.text }

// programName is the program's name as it stands in messages.
func programName(args []string, usual string) string {
	if len(args) == 0 || args[0] == "" {
		return usual
	}
	return filepath.Base(args[0])
}

// parse reads args, which don't include the program's name, as getopt(3) of the
// GNU C library does for short options: letters may share a word, an argument
// may be glued to its letter, words that are no options are skipped wherever
// they stand, and "--" ends it. rest is what follows the "--". label, "" or
// "-- ", stands before an option's name in the list of those without effect.
func parse[T target](program, label string, table []option[T], args []string, to T) (rest []string, err error) {
	next := 0 // index of the word that comes after the present one
	for next < len(args) {
		word := args[next]
		next++
		if word == "--" {
			return args[next:], nil
		}
		if len(word) < 2 || word[0] != '-' {
			continue
		}
		if name, glued, ok := strings.Cut(strings.TrimPrefix(word, "--"), "="); strings.HasPrefix(word, "--") {
			if o := findLong(table, name); o != nil {
				if !ok && next == len(args) {
					return nil, &mistake{fmt.Sprintf("%s: option '%s' requires an argument\n", program, word), true}
				}
				if !ok {
					glued = args[next]
					next++
				}
				if err := o.store(program, label, glued, to); err != nil {
					return nil, err
				}
				continue
			}
		}
		for letters := word[1:]; letters != ""; {
			letter := letters[0]
			letters = letters[1:]
			o := find(table, letter)
			if o == nil {
				return nil, &mistake{fmt.Sprintf("%s: invalid option -- '%s'\n", program, []byte{letter}), true}
			}
			given := ""
			switch o.takes {
			case nothing:
			case rate, spec:
				// Only ever a word of its own, and none while letters are left
				// in this one: -c100 is -c, -1 and so on.
				if letters == "" && next < len(args) && o.wants(args[next]) {
					given = args[next]
					next++
				}
			default:
				given, letters = letters, ""
				if given == "" {
					if next == len(args) {
						return nil, &mistake{fmt.Sprintf("%s: option requires an argument -- '%c'\n", program, letter), true}
					}
					given = args[next]
					next++
				}
			}
			if err := o.store(program, label, given, to); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// wants reports whether an option with an optional argument takes word as that.
func (o *option[T]) wants(word string) bool {
	if o.takes == rate {
		return word != "" && isDigit(word[0])
	}
	return !strings.HasPrefix(word, "-")
}

// store hands what was given to an option to it.
func (o *option[T]) store(program, label, given string, to T) error {
	if o.idle != "" {
		to.noEffect(fmt.Sprintf("%s-%c: %s", label, o.letter, o.idle))
	}
	if o.set == nil {
		return nil
	}
	arg := argument{whole: given}
	var err error
	if o.takes == copied || o.takes == apart {
		arg.first, arg.second, err = halves(given, o.takes == copied)
	}
	if err == nil {
		err = o.set(to, arg)
	}
	var exit *Exit
	switch {
	case err == nil, err == errHelp, err == errVersion, errors.As(err, &exit):
		return err
	}
	return &mistake{fmt.Sprintf("%s: option -%c: %v\n", program, o.letter, err), false}
}

// halves cuts a pair at its first comma.
func halves(s string, copied bool) (first, second string, err error) {
	first, second, comma := strings.Cut(s, ",")
	if !comma && copied {
		second = first
	}
	if first == "" && second == "" {
		// An empty variable of a script, most likely. Carrying on with the
		// default would measure something else than was meant.
		return "", "", fmt.Errorf("%q has no value", s)
	}
	return first, second, nil
}

func find[T target](table []option[T], letter byte) *option[T] {
	for i := range table {
		if table[i].letter == letter {
			return &table[i]
		}
	}
	return nil
}

func findLong[T target](table []option[T], name string) *option[T] {
	for i := range table {
		if name != "" && table[i].long == name {
			return &table[i]
		}
	}
	return nil
}

// Widths of the usage text's first columns: letter and argument.
const (
	usageColumn = 24
	usageIndent = "    "
)

// usage is the lines of a usage text for a table.
func usage[T target](table []option[T]) string {
	var b strings.Builder
	for _, o := range table {
		left := fmt.Sprintf("-%c", o.letter)
		if o.long != "" {
			left += ", --" + o.long
		}
		switch o.takes {
		case nothing:
		case rate, spec:
			left += " [" + o.shown + "]"
		case apart:
			left += " " + o.shown + " *"
		default:
			left += " " + o.shown
		}
		help := o.help
		if o.idle != "" {
			help += "; without effect: " + o.idle
		}
		fmt.Fprintf(&b, "%s%-*s %s\n", usageIndent, usageColumn, left, help)
	}
	return b.String()
}

// Texts that usage texts share.
const usagePairs = `
Of a pair, X,Y gives both values, X, the first only and ,Y the second only.
X alone counts for both, or where the pair is marked *, for the first only.
Sizes and counts may end in K, M or G (powers of 1024) or k, m or g (of 1000).
`
