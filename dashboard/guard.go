package dashboard

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// contentSecurity makes the browser load only content from this server, and run no script that is written in a page.
const contentSecurity = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// guard refuses requests that a page of another site makes a browser send: requests for a host name not in hosts, and POSTs from another
// site. No request changes the cluster: a POST only asks a question. If knowsCallers is true, guard accepts any host name.
func guard(hosts []string, knowsCallers bool, next http.Handler) http.Handler {
	foreign := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentSecurity)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if !knowsCallers && !isServedAs(r.Host, hosts) {
			refuse(w, "This server is not "+plain(r.Host)+". Name hosts under which it is reached with --allowed-host.", http.StatusMisdirectedRequest)
			return
		}
		if err := foreign.Check(r); err != nil {
			refuse(w, "A page of another site has asked for this.", http.StatusForbidden)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead && !(r.Method == http.MethodPost && takesPost(r.URL.Path)) {
			h.Set("Allow", "GET, HEAD")
			refuse(w, "This page only shows things.", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isServedAs reports whether a Host header names this machine's loopback, or one of the hosts.
func isServedAs(header string, hosts []string) bool {
	host := header
	if name, _, err := net.SplitHostPort(header); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if host == "localhost" || slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

// plain returns the text of a request in a form that is safe in an answer.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text[:min(len(text), 100)])
}
