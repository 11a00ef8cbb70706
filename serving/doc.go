// Package serving answers HTTP requests at a bounded cost. Every port of Tenon is a Port: its connections are bounded, and each of its
// handlers has Limits. Who may ask for something, and what the answer is, is up to the handlers.
package serving
