package kube

import "strings"

// validKey reports whether a label may have the key: a name of up to 63 characters, with an optional domain and slash before it. It agrees with
// the API server without its regular expressions, which are too slow for every pod of a snapshot.
func validKey(key string) bool {
	domain, name, found := strings.Cut(key, "/")
	if !found {
		name = key
	} else if !validDomain(domain) {
		return false
	}
	return name != "" && validValue(name)
}

// validValue reports whether a label may have the value: up to 63 letters, digits, dashes, dots and underscores, with a letter or digit first
// and last. It may be empty.
func validValue(value string) bool {
	if value == "" {
		return true
	}
	if len(value) > 63 || !alphanumeric(value[0]) || !alphanumeric(value[len(value)-1]) {
		return false
	}
	for i := range len(value) {
		if c := value[i]; !alphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func validDomain(domain string) bool {
	if domain == "" || len(domain) > 253 {
		return false
	}
	for part := range strings.SplitSeq(domain, ".") {
		if part == "" || part[0] == '-' || part[len(part)-1] == '-' {
			return false
		}
		for i := range len(part) {
			if c := part[i]; c != '-' && (!alphanumeric(c) || c >= 'A' && c <= 'Z') {
				return false
			}
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
