// Package browsertest tests the dashboard with a real browser: Chromium, controlled by its own protocol. It is a separate module, so that builds
// of Tenon do not fetch the library that controls a browser.
package browsertest
