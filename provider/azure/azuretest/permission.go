package azuretest

import "strings"

// Grant sets which actions Azure says that may be done with a resource or in a resource group, by its ID; before, that is everything.
// Calls are carried out all the same: have those fail that are to fail.
func (s *Subscription) Grant(scope string, actions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants[strings.ToLower(scope)] = actions
}

// listPermissions answers with what may be done.
func (s *Subscription) listPermissions(c *Call) answer {
	path := strings.ToLower(c.Path)
	scope := path[:strings.LastIndex(path, "/providers/microsoft.authorization/")]
	actions, said := s.grants[scope]
	if !said {
		actions = []string{"*"}
	}
	return ok(object{"value": []any{object{"actions": append([]string{}, actions...), "notActions": []string{}}}})
}
