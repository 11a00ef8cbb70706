// Package serving answers HTTP requests at a bounded cost. Every port of Tenon is a Port: its connections are bounded, and each of its
// handlers has Limits. The handlers authorize requests and answer them.
package serving
