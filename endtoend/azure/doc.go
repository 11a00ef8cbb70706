// Package azure holds the test of the whole on Azure: the real API server, scheduler and controller manager, Tenon as a process
// of its own with the Azure provider, and a server of our own that plays Azure Resource Manager. It is also what make demo-azure
// shows.
package azure
