// Package util has a name that says nothing, and no rule.
package util
