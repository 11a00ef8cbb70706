// Package aws holds the tests of the whole on AWS: the real API server, scheduler and controller manager, Tenon as a process
// of its own with the AWS provider, and moto, an independent implementation of AWS's APIs. One of them is also what
// make demo-aws shows.
package aws
