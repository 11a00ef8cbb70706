package azuretest

import (
	"net/http"
	"strings"
)

// signIn answers requests for tokens of processes with a client secret or a federated token instead of Credential. It reports whether the
// call was such a request.
func (s *Subscription) signIn(w http.ResponseWriter, r *http.Request) bool {
	at := s.URL + "/" + Tenant
	switch {
	case strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration"):
		ok(object{"token_endpoint": at + "/oauth2/v2.0/token", "authorization_endpoint": at + "/oauth2/v2.0/authorize", "issuer": at + "/v2.0"}).write(w)
	case strings.HasSuffix(r.URL.Path, "/oauth2/v2.0/token"):
		ok(object{"token_type": "Bearer", "expires_in": 3600, "access_token": "test"}).write(w)
	default:
		return false
	}
	return true
}
