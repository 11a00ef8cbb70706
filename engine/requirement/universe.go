// Package requirement computes the labels that a node may carry. It represents the values of a key that an expression such as "zone In (a,b)" or
// "cpu Gt 4" admits as a bit set over all values that can be told apart in one problem. The intersection of two requirements is then one AND.
package requirement

import (
	"slices"
	"strconv"

	"tenon.sh/engine/bitset"
)

// Operator says how an expression's values select values of its key.
type Operator string

const (
	In           Operator = "In"           // the key is there, with one of the values
	NotIn        Operator = "NotIn"        // the key is absent, or has another value
	Exists       Operator = "Exists"       // the key is there
	DoesNotExist Operator = "DoesNotExist" // the key is absent
	Gt           Operator = "Gt"           // the value is an integer above the given one
	Lt           Operator = "Lt"           // the value is an integer below the given one
	Gte          Operator = "Gte"          // the value is an integer, the given one or more
	Lte          Operator = "Lte"          // the value is an integer, the given one or less
)

// Expression is a demand on one key.
type Expression struct {
	Key    string
	Op     Operator
	Values []string
	sorted bool // a value is found among them without looking at all
}

// fewValues is how many values are looked at one by one.
const fewValues = 8

// Expect is the expression with these values. Of many it keeps a sorted copy: what is asked of every node and every value may
// name thousands of them.
func Expect(key string, op Operator, values []string) Expression {
	if len(values) <= fewValues {
		return Expression{Key: key, Op: op, Values: values}
	}
	values = slices.Clone(values)
	slices.Sort(values)
	return Expression{key, op, values, true}
}

// lists reports whether the value is among those of the expression.
func (e Expression) lists(value string) bool {
	if e.sorted {
		_, found := slices.BinarySearch(e.Values, value)
		return found
	}
	return slices.Contains(e.Values, value)
}

// IsUnmeetable reports whether no value meets the expression, and having none does not either: it lists none.
func (e Expression) IsUnmeetable() bool { return e.Op == In && len(e.Values) == 0 }

// Admits reports whether a node with that value of the key (there false: without the key) meets the expression. It is
// the plain meaning that the bit sets of a Universe must agree with.
func (e Expression) Admits(value string, there bool) bool {
	switch e.Op {
	case In:
		return there && e.lists(value)
	case NotIn:
		return !there || !e.lists(value)
	case Exists:
		return there
	case DoesNotExist:
		return !there
	}
	have, err := strconv.ParseInt(value, 10, 64)
	want, bounded := e.bound()
	return there && err == nil && bounded && e.Op.holds(have, want)
}

// bound is the integer that the expression compares values with; bounded is false if it has none.
func (e Expression) bound() (n int64, bounded bool) {
	if len(e.Values) != 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(e.Values[0], 10, 64)
	return n, err == nil
}

// holds compares two integers.
func (o Operator) holds(have, want int64) bool {
	switch o {
	case Gt:
		return have > want
	case Lt:
		return have < want
	case Gte:
		return have >= want
	case Lte:
		return have <= want
	}
	return false
}

// Universe knows every key and value that a problem mentions. First everything is mentioned, then Close is called, then
// sets may be asked for.
//
// A set over the values of a key has one bit for "the key is absent", one for each mentioned value, one for "any other
// text", and one for each gap between mentioned integers: all integers in a gap are alike to every mentioned
// expression. So intersecting sets is exact.
type Universe struct {
	index map[string]int
	keys  []key
}

type key struct {
	name   string
	values []string // sorted; bit i+1 stands for values[i]
	known  map[string]int
	bounds []int64 // ends of the mentioned integer intervals
	// integers are those of the values that are some, and their bits; they are read when they are first asked for.
	integers []integer
	read     bool
}

type integer struct {
	n   int64
	bit int
}

// Absent is the bit for "the key is absent" in every set.
const Absent = 0

// Mention makes the key known, with the values that it can have somewhere.
func (u *Universe) Mention(name string, values ...string) {
	k := u.key(name)
	for _, v := range values {
		if _, ok := k.known[v]; !ok {
			k.known[v] = 0
			k.values = append(k.values, v)
		}
	}
}

// MentionExpression makes everything known that the expression tells apart.
func (u *Universe) MentionExpression(e Expression) {
	switch e.Op {
	case In, NotIn:
		u.Mention(e.Key, e.Values...)
	case Gt, Lt, Gte, Lte:
		k := u.key(e.Key)
		for _, v := range e.Values {
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				k.bounds = append(k.bounds, n)
			}
		}
	default:
		u.key(e.Key)
	}
}

func (u *Universe) key(name string) *key {
	if i, ok := u.index[name]; ok {
		return &u.keys[i]
	}
	if u.index == nil {
		u.index = map[string]int{}
	}
	u.index[name] = len(u.keys)
	u.keys = append(u.keys, key{name: name, known: map[string]int{}})
	return &u.keys[len(u.keys)-1]
}

// Close ends the mentioning.
func (u *Universe) Close() {
	for i := range u.keys {
		u.keys[i].close()
	}
}

func (k *key) close() {
	if len(k.bounds) > 0 {
		k.addGaps()
	}
	slices.Sort(k.values)
	for i, v := range k.values {
		k.known[v] = i + 1
	}
}

// addGaps mentions one integer for each stretch of integers that no mentioned value or bound divides. Two neighbouring
// integers above and below a bound are always told apart, so bounds are mentioned with their neighbours.
func (k *key) addGaps() {
	var points []int64
	add := func(n int64) { points = append(points, n) }
	for v := range k.known {
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			add(n)
		}
	}
	for _, b := range k.bounds {
		add(b)
	}
	slices.Sort(points)
	points = slices.Compact(points)
	const least, most = -1 << 63, 1<<63 - 1
	var gaps []int64
	if points[0] > least {
		gaps = append(gaps, points[0]-1)
	}
	for i, p := range points {
		gaps = append(gaps, p)
		if p < most && (i+1 == len(points) || points[i+1] > p+1) {
			gaps = append(gaps, p+1)
		}
	}
	for _, g := range gaps {
		v := strconv.FormatInt(g, 10)
		if _, ok := k.known[v]; !ok {
			k.known[v] = 0
			k.values = append(k.values, v)
		}
	}
}

// Keys counts the known keys.
func (u *Universe) Keys() int { return len(u.keys) }

// Key returns the index of a key, -1 if nothing mentioned it.
func (u *Universe) Key(name string) int {
	if i, ok := u.index[name]; ok {
		return i
	}
	return -1
}

// Name returns the name of key k.
func (u *Universe) Name(k int) string { return u.keys[k].name }

// Size is the number of bits of a set over the values of key k.
func (u *Universe) Size(k int) int { return len(u.keys[k].values) + 2 }

// Bit returns the bit that stands for a value of key k.
func (u *Universe) Bit(k int, value string) int {
	if b, ok := u.keys[k].known[value]; ok {
		return b
	}
	return u.other(k)
}

// other is the bit for every text that nothing mentions.
func (u *Universe) other(k int) int { return len(u.keys[k].values) + 1 }

// Value returns a value that bit b of key k stands for; there is false if the bit means that the key is absent.
func (u *Universe) Value(k, b int) (value string, there bool) {
	switch {
	case b == Absent:
		return "", false
	case b <= len(u.keys[k].values):
		return u.keys[k].values[b-1], true
	}
	return u.unmentioned(k), true
}

// unmentioned returns a value that nothing mentions.
func (u *Universe) unmentioned(k int) string {
	for n := 0; ; n++ {
		v := "any-" + strconv.Itoa(n)
		if _, ok := u.keys[k].known[v]; !ok {
			return v
		}
	}
}

// Any is the set of all values of key k, and of its absence.
func (u *Universe) Any(k int) bitset.Set { return bitset.Full(u.Size(k)) }

// Only is the set that holds just the bit for value.
func (u *Universe) Only(k int, value string) bitset.Set {
	return bitset.Of(u.Size(k), u.Bit(k, value))
}

// Missing is the set that holds just the absence of the key.
func (u *Universe) Missing(k int) bitset.Set { return bitset.Of(u.Size(k), Absent) }

// Set returns the values of the expression's key that the expression admits. The key must be known.
func (u *Universe) Set(e Expression) bitset.Set {
	k := u.index[e.Key]
	switch e.Op {
	case In:
		s := bitset.New(u.Size(k))
		for _, v := range e.Values {
			if b, ok := u.keys[k].known[v]; ok {
				s.Add(b)
			}
		}
		return s
	case NotIn:
		s := u.Any(k)
		for _, v := range e.Values {
			if b, ok := u.keys[k].known[v]; ok {
				s.Remove(b)
			}
		}
		return s
	case Exists:
		s := u.Any(k)
		s.Remove(Absent)
		return s
	case DoesNotExist:
		return u.Missing(k)
	}
	s := bitset.New(u.Size(k)) // a text that nothing mentions is no integer that a bound could admit
	want, bounded := e.bound()
	if !bounded {
		return s
	}
	for _, i := range u.keys[k].asIntegers() {
		if e.Op.holds(i.n, want) {
			s.Add(i.bit)
		}
	}
	return s
}

func (k *key) asIntegers() []integer {
	if k.read {
		return k.integers
	}
	k.read = true
	for i, v := range k.values {
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			k.integers = append(k.integers, integer{n, i + 1})
		}
	}
	return k.integers
}
