// Package browsertest looks at the dashboard with a real browser: Chromium, driven over its own protocol. It is a module of its own, so
// that nobody who builds Tenon fetches what drives a browser.
package browsertest
