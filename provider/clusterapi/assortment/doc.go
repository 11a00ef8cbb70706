// Package assortment makes a catalog from MachineDeployments: the resources, zones and prices of their machines. It takes each from the first source
// that has it: annotations, templates, running nodes, or built-in figures. It only computes: the provider or a file reader passes the objects.
package assortment
