// Package assortment makes a catalog from MachineDeployments: what their machines have, where and at what price, from
// annotations, templates, running nodes and built-in figures, whichever says it first. It only computes: the objects are
// handed in, by the provider or from files.
package assortment
