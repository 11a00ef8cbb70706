package azuretest

import "strings"

// Grant sets the actions that Azure reports as allowed on a resource or resource group, by its ID; before, it reports all. It does not make
// calls fail: use Fail for that.
func (s *Subscription) Grant(scope string, actions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants[strings.ToLower(scope)] = actions
}

// listPermissions answers with the allowed actions.
func (s *Subscription) listPermissions(c *Call) answer {
	path := strings.ToLower(c.Path)
	scope := path[:strings.LastIndex(path, "/providers/microsoft.authorization/")]
	actions, said := s.grants[scope]
	if !said {
		actions = []string{"*"}
	}
	return ok(object{"value": []any{object{"actions": append([]string{}, actions...), "notActions": []string{}}}})
}
