package dashboard

import (
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
)

// tokenQuery is the query parameter with the token.
const tokenQuery = "token"

// withToken answers only requests with the token: in the address, as a cookie that the first such request sets, or as a bearer token.
// So other users of the same machine, who can reach its loopback, do not see the page.
func withToken(token string, next http.Handler) http.Handler {
	if token == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := tokenCookie(r)
		query := r.URL.Query()
		bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case isToken(query.Get(tokenQuery), token):
			http.SetCookie(w, &http.Cookie{Name: name, Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
			query.Del(tokenQuery)
			r.URL.RawQuery = query.Encode()
			if r.Header.Get("Sec-Fetch-Mode") == "navigate" { // keeps the token out of the history, and off shared screens
				http.Redirect(w, r, r.URL.RequestURI(), http.StatusSeeOther)
				return
			}
		case hasCookie(r, name, token), isToken(bearer, token):
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, "This page needs the token of its address. Open the address that the command has printed at its start, with ?token= in it. Programs send Authorization: Bearer.", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// tokenCookie is the name of the cookie with the token. Browsers send the cookies of a host to all of its ports, so the name has the port.
func tokenCookie(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host) // none is one of its own
	return "tenon-dashboard-" + port
}

func hasCookie(r *http.Request, name, token string) bool {
	for _, c := range r.CookiesNamed(name) {
		if isToken(c.Value, token) {
			return true
		}
	}
	return false
}

// isToken compares in constant time, so that an attacker cannot guess the token byte by byte.
func isToken(given, token string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}
