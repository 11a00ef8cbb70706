// Package examples carries the manifests of the guide inside the program, so that the demo applies the same files that a reader can open.
package examples

import "embed"

// Inflate holds the node pool, node class and Deployment of the demo, in the folder inflate.
//
//go:embed inflate
var Inflate embed.FS

// Week is the scenario that tenon simulate runs when none is named.
//
//go:embed simulate/week.txt
var Week string
