// Package nomination decides which pods are nominated to which node, when nodes that have joined are opened to pods, and how the pods of
// a plan land with nominations and without.
package nomination
