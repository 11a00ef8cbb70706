// Command tenon is a Kubernetes node autoscaler; package cli holds its subcommands.
package main

import (
	"os"

	"tenon.sh/cli"
)

func main() { os.Exit(cli.Main()) }
