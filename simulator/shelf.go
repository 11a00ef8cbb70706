package simulator

import corev1 "k8s.io/api/core/v1"

// shelf keeps things by key, in an order that follows only from the calls of put and remove.
type shelf[T any] struct {
	list []T
	keys []string
	at   map[string]int
}

func newShelf[T any]() shelf[T] { return shelf[T]{at: map[string]int{}} }

// put adds a thing, or puts it in the place of the one with its key.
func (s *shelf[T]) put(key string, thing T) {
	if i, ok := s.at[key]; ok {
		s.list[i] = thing
		return
	}
	s.at[key] = len(s.list)
	s.list, s.keys = append(s.list, thing), append(s.keys, key)
}

// get returns the thing with the key, or the zero value if there is none.
func (s *shelf[T]) get(key string) (thing T, ok bool) {
	i, ok := s.at[key]
	if !ok {
		return thing, false
	}
	return s.list[i], true
}

// next returns the index that the next new thing gets.
func (s *shelf[T]) next() int { return len(s.list) }

// remove takes a thing off; the last one moves to its place.
func (s *shelf[T]) remove(key string) {
	i, ok := s.at[key]
	if !ok {
		return
	}
	last := len(s.list) - 1
	s.list[i], s.keys[i] = s.list[last], s.keys[last]
	s.at[s.keys[i]] = i
	delete(s.at, key)
	var none T
	s.list[last] = none
	s.list, s.keys = s.list[:last], s.keys[:last]
}

// roster holds all units of the world, and a list of their pods, because every plan needs this list.
type roster struct {
	shelf[*unit]
	pods []*corev1.Pod // the pods of list
}

func (r *roster) put(u *unit) {
	r.shelf.put(u.key(), u)
	if len(r.pods) < len(r.list) {
		r.pods = append(r.pods, nil)
	}
	r.pods[r.at[u.key()]] = u.pod
}

// set replaces the pod of a unit by another pod with the same UID.
func (r *roster) set(u *unit, pod *corev1.Pod) {
	u.pod = pod
	if i, ok := r.at[u.key()]; ok && r.list[i] == u {
		r.pods[i] = pod
	}
}

func (r *roster) remove(u *unit) {
	i, ok := r.at[u.key()]
	if !ok {
		return
	}
	r.shelf.remove(u.key())
	last := len(r.pods) - 1
	r.pods[i], r.pods[last] = r.pods[last], nil
	r.pods = r.pods[:last]
}

// todo is a list of things to look at, each once, in the order in which they were added.
type todo[T comparable] struct {
	list []T
	in   map[T]bool
}

func (t *todo[T]) add(thing T) {
	if t.in[thing] {
		return
	}
	if t.in == nil {
		t.in = map[T]bool{}
	}
	t.in[thing] = true
	t.list = append(t.list, thing)
}

// take empties the list.
func (t *todo[T]) take() []T {
	list := t.list
	t.list = nil
	clear(t.in)
	return list
}
