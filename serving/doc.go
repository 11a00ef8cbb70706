// Package serving answers HTTP requests at a bounded cost. Every port of Tenon is a Port: its connections are bounded, and each of its handlers has
// Limits. The handlers decide who may ask for something, and answer.
package serving
