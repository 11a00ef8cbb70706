// Package nomination decides which pods are nominated to which node, and when nodes that have joined are opened to pods. It computes where the pods
// of a plan land with nominations and without.
package nomination
